// SPDX-License-Identifier: Apache-2.0
// patchbay complete: prints names for the completion of a shell, one on each line. What fails prints nothing.
import {
  NAMESPACES,
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type KubeObject,
  type ResourceType,
} from "@patchbay/api";
import { createFiles } from "@patchbay/os";
import { argumentAt, type Context, type Input } from "../../context.ts";
import { imagesDirectory } from "../images/directory.ts";
import { toIfaceRows } from "../../print/iface-rows.ts";
import { withSession, type Session } from "../../session.ts";
import { findTarget } from "../../target.ts";

/** A person waits for the next key; milliseconds. */
const TIMEOUT_MS = 3_000;

type Names = Promise<readonly string[]>;

async function namesOf<T extends KubeObject>(
  { client, namespace }: Session,
  type: ResourceType<T>,
): Names {
  const where = type.namespaced ? { namespace } : {};
  const { items } = await client.store.list(type, { ...where, timeoutMs: TIMEOUT_MS });
  return items.map(({ metadata }) => metadata.name);
}

async function listVms(session: Session): Names {
  const lists = [namesOf(session, VIRTUAL_MACHINES), namesOf(session, VIRTUAL_MACHINE_INSTANCES)];
  return [...new Set((await Promise.all(lists)).flat())].sort();
}

async function listIfaces(session: Session, context: Context, name: string): Names {
  const target = await findTarget(session, { name, isVmi: false }, context);
  return toIfaceRows(target).map((row) => row.name);
}

async function listNames(session: Session, context: Context, input: Input): Names {
  switch (argumentAt(input, 0)) {
    case "vms":
      return listVms(session);
    case "networks":
      return namesOf(session, NETWORK_ATTACHMENT_DEFINITIONS);
    case "namespaces":
      return namesOf(session, NAMESPACES);
    case "interfaces":
      return listIfaces(session, context, argumentAt(input, 1));
    default:
      return [];
  }
}

async function listImages({ global }: Context): Names {
  return createFiles().list(imagesDirectory(global.dataDir));
}

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const print = (names: readonly string[]): void => {
    for (const name of names) context.out.write(`${name}\n`);
  };
  if (argumentAt(input, 0) === "images") {
    print(await listImages(context));
    return;
  }
  await withSession(context, async (session) => {
    print(await listNames(session, context, input));
  });
}
