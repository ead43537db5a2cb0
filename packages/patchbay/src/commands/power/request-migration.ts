// SPDX-License-Identifier: Apache-2.0
// How is a migration asked for, and waited for?
import { migrationStage, migrationVerdict } from "../../change/migration.ts";
import { requestChange } from "../../change/request.ts";
import type { Context } from "../../command.ts";
import { argumentAt, textOption, type Input } from "../../input.ts";
import { withSession } from "../../session.ts";

/** Source: Kubernetes well-known labels. */
const HOST_NAME_LABEL = "kubernetes.io/hostname";

/** @throws what kube's client throws: a VM that cannot be migrated is KUBE_REFUSED, with the reasons */
export async function requestMigration(context: Context, input: Input): Promise<void> {
  const name = argumentAt(input, 0);
  const node = textOption(input, "to");
  const body = node === undefined ? {} : { addedNodeSelector: { [HOST_NAME_LABEL]: node } };
  await withSession(context, async (session) => {
    const { namespace } = session;
    const change = {
      target: { kind: "virtualmachine", namespace, name },
      action: "migrate",
      request: { kind: "subresource", name: "migrate", body },
      what: "migration",
      look: `kubectl describe vmi,vmim -n ${namespace}`,
      fields: {},
      hasMigrations: true,
      stageOf: migrationStage,
      verdictOf: migrationVerdict,
    } as const;
    await requestChange(session, context, { change, input });
  });
}
