// SPDX-License-Identifier: Apache-2.0
// patchbay uninstall: takes everything of Patchbay off a cluster.
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Removal } from "@patchbay/manifests";
import type { ObjectKey } from "@patchbay/core/ports";
import type { Command, Context } from "../../command.ts";
import { hasFlag, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import type { Session } from "../../session.ts";

/** Resolves when a watch tells that the object is gone, or Ctrl-C was pressed. */
async function untilGone(
  { client }: Session,
  { signal, err }: Context,
  { type, key }: { readonly type: ResourceType<KubeObject>; readonly key: ObjectKey },
): Promise<void> {
  const { createCache, waitForCaches } = await import("@patchbay/kube");
  const { warnTo } = await import("../../session.ts");
  const over = new AbortController();
  const either = AbortSignal.any([signal, over.signal]);
  const selection = { fieldSelector: `metadata.name=${key.name}` };
  const cache = createCache(client.reflect(type, selection), { logger: warnTo(err) });
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const look = (): void => {
    if (signal.aborted || cache.find(key) === undefined) resolve(undefined);
  };
  signal.addEventListener("abort", look, { once: true });
  cache.start(either);
  await waitForCaches([cache], either);
  cache.onChange(look);
  look();
  await promise;
  signal.removeEventListener("abort", look);
  over.abort();
  signal.throwIfAborted();
}

function printRemoval({ name, kept }: Removal): string {
  return kept === undefined
    ? `${name}: deleted\n`
    : `${name}: kept, ${kept}; --with-objects deletes them too\n`;
}

async function run(context: Context, input: Input): Promise<void> {
  const { uninstall: uninstallFrom } = await import("@patchbay/manifests");
  const { withSession } = await import("../../session.ts");
  const removals: Removal[] = [];
  await withSession(context, (session) =>
    uninstallFrom(session.client.store, {
      withObjects: hasFlag(input, "withObjects"),
      tell: (removal) => {
        removals.push(removal);
      },
      untilGone: (type, key) => untilGone(session, context, { type, key }),
    }),
  );
  await printResult(context, {
    table: () => removals.map(printRemoval).join(""),
    data: { objects: removals },
    names: removals.map(({ name }) => name),
  });
}

/** A cluster that has nothing of it is one where there is nothing to do. */
export const uninstall: Command = {
  name: "uninstall",
  args: [],
  summary: "Remove Patchbay from a cluster; refused while virtual machines exist",
  flags: [
    {
      flags: "--with-objects",
      description: "delete kinds of which objects still exist, and those objects too",
    },
  ],
  run,
};
