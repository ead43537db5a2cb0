// SPDX-License-Identifier: Apache-2.0
// One CNI ADD that leaves no unknown state: the intent is on disk before, and DEL follows a failure.
import type { JournalRow } from "@patchbay/cni";
import type { AttachmentRequest, Sandbox, CniResult } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { messageOf } from "@patchbay/base";
import { claimDefaultRoutes } from "./default-route.ts";
import { detach } from "./detach.ts";
import { recordNodeNics } from "./node-nics.ts";
import { prepareDeviceInfo, withDeviceInfo, type RequestWithDevice } from "./device.ts";

/** Builds a row for the current sandbox. Its sequence is the highest of the pod, because later attachments may depend on earlier ones. */
export async function buildRow(
  { network }: { readonly network: string },
  options: {
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
    readonly request: AttachmentRequest;
  },
  deps: Deps,
): Promise<Omit<JournalRow, "state">> {
  const { facts, sandbox, request } = options;
  const rows = await deps.journal.list(facts.uid);
  return {
    podUid: facts.uid,
    podNamespace: facts.attachments.namespace,
    podName: facts.key.slice(facts.attachments.namespace.length + 1),
    network,
    request,
    netnsInode: sandbox.netnsInode,
    bootId: deps.bootId,
    sequence: Math.max(0, ...rows.map((other) => other.sequence)) + 1,
  };
}

export async function writeRow(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  await deps.journal.write(row);
  deps.tracked.add(facts.key, facts.uid);
}

/** Writes the intent before ADD, because after a crash nothing else tells what ADD made. */
export async function beginAttachment(
  network: Parameters<typeof buildRow>[0],
  options: RequestWithDevice & {
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
    readonly isDefault?: true;
    readonly selection?: JournalRow["selection"];
    readonly defaultRoute?: JournalRow["defaultRoute"];
  },
  deps: Deps,
): Promise<JournalRow> {
  const row: JournalRow = {
    ...(await buildRow(network, options, deps)),
    ...(options.isDefault === true && { isDefault: true }),
    ...(options.selection !== undefined && { selection: options.selection }),
    ...(options.defaultRoute !== undefined && { defaultRoute: options.defaultRoute }),
    ...(await recordNodeNics(options.request, deps)),
    ...(options.device !== undefined && { device: options.device }),
    state: "begun",
  };
  await writeRow(row, options.facts, deps);
  return row;
}

interface Added {
  readonly row: JournalRow;
  readonly result: CniResult;
}

/** A failed ADD may leave a NIC and a lease, so DEL follows every failure. Source: CNI SPEC 1.1, "Lifecycle & Ordering". */
export async function addOrUndo(
  begun: JournalRow,
  options: { readonly facts: PodFacts; readonly check?: (result: CniResult) => Promise<void> },
  deps: Deps,
): Promise<Added> {
  const { facts, check } = options;
  let row = begun;
  try {
    await prepareDeviceInfo(row, deps);
    const result = await deps.cni.add(row.request);
    row = await withDeviceInfo({ ...row, result }, deps);
    await check?.(result);
    const remember = async (changed: JournalRow): Promise<void> => {
      row = changed;
      await deps.journal.write(changed);
    };
    await claimDefaultRoutes(row, remember, deps);
    return { row, result };
  } catch (error) {
    // If DEL fails too, the row stays "begun" and the next pass tries again. The first error is reported.
    await detach(row, facts, deps).catch((undoError: unknown) => {
      const reason = messageOf(undoError);
      deps.log.warn("failed to undo an attachment", { pod: facts.key, reason });
    });
    throw error;
  }
}
