// SPDX-License-Identifier: Apache-2.0
// virt-api's requests to guests, executed at once and independent of the loop, which observes their results.
import {
  domainNameOf,
  guestAgentInfoOf,
  guestFilesystemsOf,
  guestUsersOf,
  isAppError,
  type GuestRequest,
  type HeardOfGuest,
} from "@patchbay/core";
import type {
  GuestFacts,
  GuestTopic,
  HypervisorConnection,
  LinkCounters,
  ObjectKey,
} from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { tellTraffic } from "../metrics/traffic.ts";
import { findGuest } from "./find-guest.ts";

/** Executes a request to a guest of this node. Returns `{}` for requests without data. */
export type AskGuest = (key: ObjectKey, request: GuestRequest) => Promise<object>;

type Asked = (connection: HypervisorConnection, domain: string) => Promise<object>;

/** An agent that does not support one query may support others. */
async function unlessUnknown<T>(question: Promise<T>): Promise<T | undefined> {
  try {
    return await question;
  } catch (error) {
    if (isAppError(error, "LIBVIRT_UNSUPPORTED") || isAppError(error, "LIBVIRT_REFUSED")) {
      return undefined;
    }
    throw error;
  }
}

/** Queries one after the other, because the agent has only one channel. */
async function hearAll(connection: HypervisorConnection, domain: string): Promise<HeardOfGuest> {
  const hear = (topic: GuestTopic): Promise<GuestFacts | undefined> =>
    unlessUnknown(connection.readGuestFacts(domain, topic));
  return {
    system: await unlessUnknown(connection.readGuestSystem(domain)),
    agent: await hear("agent"),
    freeze: await hear("freeze"),
    hostname: await hear("hostname"),
    timezone: await hear("timezone"),
    users: await hear("users"),
    filesystems: await hear("filesystems"),
  };
}

async function done(change: Promise<void>): Promise<object> {
  await change;
  return {};
}

const REQUESTS: Readonly<Record<Exclude<GuestRequest, "interfacetraffic">, Asked>> = {
  pause: (connection, domain) => done(connection.suspendDomain(domain)),
  unpause: (connection, domain) => done(connection.resumeDomain(domain)),
  reset: (connection, domain) => done(connection.resetDomain(domain)),
  softreboot: (connection, domain) => done(connection.rebootDomain(domain)),
  guestosinfo: async (connection, domain) => guestAgentInfoOf(await hearAll(connection, domain)),
  userlist: async (connection, domain) => ({
    metadata: {},
    items: guestUsersOf(await connection.readGuestFacts(domain, "users")),
  }),
  filesystemlist: async (connection, domain) => ({
    metadata: {},
    items: guestFilesystemsOf(await connection.readGuestFacts(domain, "filesystems")),
  }),
};

/**
 * Creates the request function. It is as safe to repeat as the request itself.
 * @throws AppError with KUBE_NOT_FOUND when the guest is not on this node, LAUNCHER_UNREACHABLE, and libvirt's errors
 */
export function createAskGuest(
  deps: Deps & { readonly linkCounters: LinkCounters },
  wake: (key: string) => void,
): AskGuest {
  return async (key, request) => {
    const { vmi, pod, listener } = findGuest(key, deps, wake);
    if (request === "interfacetraffic") return tellTraffic(vmi, deps);
    return deps.sessions.use(pod, listener, ({ connection }) =>
      REQUESTS[request](connection, domainNameOf(vmi)),
    );
  };
}
