// SPDX-License-Identifier: Apache-2.0
// How is a migration asked for?
import type { Context } from "../../command.ts";
import { argumentAt, textOption, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { withSession } from "../../session.ts";
import { subresourcePath } from "../../target.ts";

/** Of the request itself; admission and webhooks run within it. */
const TIMEOUT_MS = 30_000;
/** Source: Kubernetes well-known labels. */
const HOST_NAME_LABEL = "kubernetes.io/hostname";

/** @throws what kube's client throws: a VM that cannot be migrated is KUBE_REFUSED, with the reasons */
export async function requestMigration(context: Context, input: Input): Promise<void> {
  const name = argumentAt(input, 0);
  const node = textOption(input, "to");
  const body = node === undefined ? {} : { addedNodeSelector: { [HOST_NAME_LABEL]: node } };
  await withSession(context, async ({ client, namespace }) => {
    const target = { kind: "virtualmachine", namespace, name } as const;
    const path = subresourcePath(target, "migrate");
    const { signal } = context;
    await client.requestRaw({ method: "PUT", path, body, timeoutMs: TIMEOUT_MS, signal });
    await printResult(context, {
      table: () => `virtualmachine ${name}: migration requested\n`,
      data: { ...target, action: "migrate", result: "requested" },
      names: [`virtualmachine/${name}`],
    });
  });
}
