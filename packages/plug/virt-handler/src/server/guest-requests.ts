// SPDX-License-Identifier: Apache-2.0
// What virt-api asks of a guest of this node is done at once, beside the loop, which sees what has come of it.
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

/** Asks a guest of this node, and gives what is to be answered; `{}` where only something was done. */
export type AskGuest = (key: ObjectKey, request: GuestRequest) => Promise<object>;

type Asked = (connection: HypervisorConnection, domain: string) => Promise<object>;

/** An agent that does not know one question may know the others. */
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

/** One after the other: the agent has one channel. */
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
 * Makes it. Safe to repeat, as what it asks for is.
 * @throws AppError with KUBE_NOT_FOUND where the guest is not of this node, LAUNCHER_UNREACHABLE, and what libvirt throws
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
