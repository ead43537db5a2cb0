// SPDX-License-Identifier: Apache-2.0
// The call that sends a guest to another node, on a connection of its own, and what must follow it at once.
import { names, usesEmulation, type VirtualMachineInstance } from "@patchbay/api";
import {
  domainNameOf,
  DISRUPTED_MS,
  downtimeAt,
  messageOf,
  moveLimitsOf,
  travellingDisks,
  type DepartureFacts,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { HypervisorConnection, Migration } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { SOCKETS, type RelayRequest } from "../relays/own-relays.ts";
import type { Session } from "../sessions/sessions.ts";
import type { Move } from "./moves.ts";

/** What the steps of one pass work on. */
export interface Departure {
  readonly vmi: VirtualMachineInstance;
  readonly migration: DepartureFacts["migration"];
  readonly move: Move;
  /** Undefined: the launcher does not answer, or has ended. */
  readonly session: Session | undefined;
  readonly wake: () => void;
  /** Tells networks that the guest is here. */
  readonly announce: () => Promise<void>;
  readonly deps: Deps;
}

/** Where its launcher's sockets are, and what is carried. */
export function relayRequestOf(
  { vmi, migration }: Pick<Departure, "vmi" | "migration">,
  { launcher }: Session,
): RelayRequest {
  const { directoryFd } = launcher;
  const disks = travellingDisks(vmi.spec).length;
  return { migration, disks, silenceMs: moveLimitsOf(migration).silenceMs, directoryFd };
}

/** As its launcher finds the ways: in the volume of its sockets. */
function migrationOf({ vmi, migration }: Departure): Migration {
  const at = (socket: string): string => `${names.LAUNCHER_DIR}/${socket}`;
  const targets = travellingDisks(vmi.spec);
  const { bandwidthMibPerSecond, throttles, allowsUnsafe } = moveLimitsOf(migration);
  return {
    ...(bandwidthMibPerSecond !== undefined && { bandwidthMibPerSecond }),
    throttles,
    allowsUnsafe,
    ...(targets.length > 0 && { disks: { uri: `unix://${at(SOCKETS.disks)}`, targets } }),
    peerUri: `qemu+unix:///session?socket=${at(SOCKETS.peer)}`,
    memoryUri: `unix://${at(SOCKETS.memory)}`,
  };
}

function note({ log }: Deps, vmi: VirtualMachineInstance, outcome: object): void {
  log.info("a guest's departure has come to its end", { vmi: printKey(keyOf(vmi)), ...outcome });
}

/** Where that cannot be had, it is as QEMU has it. */
async function limitDowntime(
  { vmi, migration, move, deps }: Departure,
  connection: HypervisorConnection,
  iteration: number,
): Promise<void> {
  const { maxDowntimeMs } = moveLimitsOf(migration);
  const isEmulated = usesEmulation(deps.kubevirts.list()[0]);
  const atMost = { maxDowntimeMs, isEmulated };
  const limitMs = move.isDisrupted ? DISRUPTED_MS : downtimeAt(iteration, atMost);
  try {
    await connection.setMaxDowntime(domainNameOf(vmi), limitMs);
  } catch (error) {
    const reason = messageOf(error);
    deps.log.warn("the downtime of a move is not limited", { vmi: printKey(keyOf(vmi)), reason });
  }
}

/** What failed, for people; libvirt says that it was cancelled when we have done so. */
function failureOf({ migration, move }: Departure, error: unknown): string {
  if (!move.isStalled) return messageOf(error);
  const seconds = moveLimitsOf(migration).silenceMs / 1000;
  return `nothing came over for ${String(seconds)} s (progressTimeout)`;
}

/** Waits for the end; the guest stands still at the target from then on until the target's node has heard of it. */
async function follow(departure: Departure, connection: HypervisorConnection): Promise<void> {
  const { vmi, move, wake, deps } = departure;
  try {
    await limitDowntime(departure, connection, 1);
    // What goes over is called on this connection until it has ended: others are answered meanwhile.
    connection.onEvent((event) => {
      const { session } = departure;
      if (event.kind !== "migrationIteration" || session === undefined) return;
      void limitDowntime(departure, session.connection, event.iteration);
    });
    await connection.migrateDomain(domainNameOf(vmi), migrationOf(departure));
    move.call = "arrived";
    const { relay } = move;
    await relay?.tellGone();
    move.isHeard = relay !== undefined && relay === move.relay;
    note(deps, vmi, { isHeard: move.isHeard });
  } catch (error) {
    const reason = failureOf(departure, error);
    // That the other node has not heard of it is the next pass's to mend.
    if (move.call === "running") move.call = { failure: reason };
    note(deps, vmi, { reason });
  }
  await connection.close();
  wake();
}

/**
 * Begins; what becomes of it is in the move, and wakes.
 * @throws AppError with LIBVIRT_UNREACHABLE, LIBVIRT_TIMED_OUT; nothing has begun then
 */
export async function sendAway(departure: Departure, { launcher }: Session): Promise<void> {
  const { move, deps } = departure;
  const connection = await deps.hypervisor.open({ kind: "socket", fd: launcher.socketFd });
  move.call = "running";
  void follow(departure, connection);
}
