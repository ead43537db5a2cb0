// SPDX-License-Identifier: Apache-2.0
// Executes virt-api's requests to guests, independently of the reconcile loop.
import type { VirtualMachineInstance } from "@patchbay/api";
import { domainNameOf } from "@patchbay/core/vm";
import {
  buildGuestAgentInfo,
  parseGuestFilesystems,
  parseGuestUsers,
  type GuestRequest,
  type AgentReplies,
} from "@patchbay/core/guest";
import { isAppError } from "@patchbay/base";
import type {
  GuestFacts,
  GuestTopic,
  HypervisorConnection,
  LinkCounters,
  ObjectKey,
} from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { readTraffic } from "../metrics/traffic.ts";
import { findGuest } from "./find-guest.ts";

/** Executes a request to a guest of this node. Returns the requested data, or `{}` if the request returns no data. */
export type RequestGuest = (key: ObjectKey, request: GuestRequest) => Promise<object>;

type Handler = (connection: HypervisorConnection, domain: string) => Promise<object>;

/** Returns undefined if the agent does not support the query. */
async function ifSupported<T>(query: Promise<T>): Promise<T | undefined> {
  try {
    return await query;
  } catch (error) {
    if (isAppError(error, "LIBVIRT_UNSUPPORTED") || isAppError(error, "LIBVIRT_REFUSED")) {
      return undefined;
    }
    throw error;
  }
}

/** Sends one query at a time, because the agent has only one channel. */
async function readAll(connection: HypervisorConnection, domain: string): Promise<AgentReplies> {
  const read = (topic: GuestTopic): Promise<GuestFacts | undefined> =>
    ifSupported(connection.readGuestFacts(domain, topic));
  return {
    system: await ifSupported(connection.readGuestSystem(domain)),
    agent: await read("agent"),
    freeze: await read("freeze"),
    hostname: await read("hostname"),
    timezone: await read("timezone"),
    users: await read("users"),
    filesystems: await read("filesystems"),
  };
}

async function toEmptyResult(change: Promise<void>): Promise<object> {
  await change;
  return {};
}

const HANDLERS: Readonly<Record<Exclude<GuestRequest, "interfacetraffic">, Handler>> = {
  pause: (connection, domain) => toEmptyResult(connection.suspendDomain(domain)),
  unpause: (connection, domain) => toEmptyResult(connection.resumeDomain(domain)),
  reset: (connection, domain) => toEmptyResult(connection.resetDomain(domain)),
  softreboot: (connection, domain) => toEmptyResult(connection.rebootDomain(domain)),
  guestosinfo: async (connection, domain) => buildGuestAgentInfo(await readAll(connection, domain)),
  userlist: async (connection, domain) => ({
    metadata: {},
    items: parseGuestUsers(await connection.readGuestFacts(domain, "users")),
  }),
  filesystemlist: async (connection, domain) => ({
    metadata: {},
    items: parseGuestFilesystems(await connection.readGuestFacts(domain, "filesystems")),
  }),
};

interface PauseChange {
  readonly isPause: boolean;
  readonly perform: () => Promise<object>;
}

/** Records a pause before it is performed, because a retry after a disk error could otherwise still resume the guest. */
async function recordPause(
  { metadata: { uid = "" } }: VirtualMachineInstance,
  { isPause, perform }: PauseChange,
  { pauseRequests }: Pick<Deps, "pauseRequests">,
): Promise<object> {
  const previous = pauseRequests.get(uid);
  pauseRequests.set(uid, isPause);
  try {
    return await perform();
  } catch (error) {
    if (previous === undefined) pauseRequests.delete(uid);
    else pauseRequests.set(uid, previous);
    throw error;
  }
}

export function createRequestGuest(
  deps: Deps & { readonly linkCounters: LinkCounters },
  wake: (key: string) => void,
): RequestGuest {
  return async (key, request) => {
    const { vmi, pod, listener } = findGuest(key, deps, wake);
    if (request === "interfacetraffic") return readTraffic(vmi, deps);
    const perform = (): Promise<object> =>
      deps.sessions.use(pod, listener, ({ connection }) =>
        HANDLERS[request](connection, domainNameOf(vmi)),
      );
    if (request !== "pause" && request !== "unpause") return perform();
    const result = await recordPause(vmi, { isPause: request === "pause", perform }, deps);
    listener.wake(); // libvirt sends no event if a disk error has already paused the guest.
    return result;
  };
}
