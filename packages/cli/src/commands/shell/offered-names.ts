// SPDX-License-Identifier: Apache-2.0
// Lists names of objects for shell completion. Errors are not handled here, because the completion scripts discard error
// messages.
import { resolve } from "node:path";
import {
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type ResourceType,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { toIfaceRows } from "../../print/iface-rows.ts";
import { withSession, type Session, findTarget } from "../../session.ts";

/** Time limit of a request, in milliseconds. It is short, because the user waits at the prompt. */
const TIMEOUT_MS = 3_000;

type Names = Promise<readonly string[]>;

async function listObjectNames<T extends KubeObject>(
  { client, namespace }: Session,
  type: ResourceType<T>,
): Names {
  const scope = type.namespaced ? { namespace } : {};
  const { items } = await client.store.list(type, { ...scope, timeoutMs: TIMEOUT_MS });
  return items.map(({ metadata }) => metadata.name);
}

async function listVms(session: Session): Names {
  const lists = [
    listObjectNames(session, VIRTUAL_MACHINES),
    listObjectNames(session, VIRTUAL_MACHINE_INSTANCES),
  ];
  return [...new Set((await Promise.all(lists)).flat())].sort();
}

async function listIfaces(session: Session, context: Context, name: string): Names {
  const target = await findTarget(session, { name, isVmi: false }, context);
  return toIfaceRows(target).map((row) => row.name);
}

async function listInCluster(session: Session, context: Context, input: Input): Names {
  switch (argumentAt(input, 0)) {
    case "vms":
      return listVms(session);
    case "networks":
      return listObjectNames(session, NETWORK_ATTACHMENT_DEFINITIONS);
    case "namespaces":
      return listObjectNames(session, NAMESPACES);
    case "interfaces":
      return listIfaces(session, context, argumentAt(input, 1));
    default:
      return [];
  }
}

/** Lists names that complete a word. The command's first argument is the kind of names. For interfaces, the second argument is the VM. */
export async function listNames(context: Context, input: Input): Names {
  if (argumentAt(input, 0) === "images") {
    const { listRunningImages } = await import("@patchbay/supervisor");
    return listRunningImages(resolve(context.global.dataDir));
  }
  const names = Promise.withResolvers<readonly string[]>();
  await withSession(context, async (session) => {
    names.resolve(await listInCluster(session, context, input));
  });
  return names.promise;
}
