// SPDX-License-Identifier: Apache-2.0
import type { ServedNic } from "@patchbay/core/nics";
import type { AddressServer, AddressServers } from "@patchbay/core/interfaces";

/** {@link AddressServers} in memory, with requests of guests. */
export interface FakeAddressServers extends AddressServers {
  requestLease(netnsInode: string, mac: string): ServedNic["lease"] | undefined;
  /** Kills the servers in the namespace. */
  kill(netnsInode: string): void;
  readonly count: number;
  /** Makes the next `start` fail with the error. */
  failNext(error: Error): void;
}

interface Running extends AddressServer {
  readonly inode: string;
  readonly nic: ServedNic;
  readonly end: (reason: string) => void;
}

export function createFakeAddressServers(): FakeAddressServers {
  const running = new Set<Running>();
  let failure: { readonly error: Error } | undefined;
  const begin = (inode: string, nic: ServedNic): AddressServer => {
    const { promise: ended, resolve } = Promise.withResolvers<string>();
    const server: Running = {
      inode,
      nic,
      ended,
      end: (reason) => {
        running.delete(server);
        resolve(reason);
      },
      stop: () => {
        server.end("it was stopped");
        return Promise.resolve();
      },
    };
    running.add(server);
    return server;
  };
  return {
    start: ({ inode }, nic) => {
      const failed = failure;
      failure = undefined;
      if (failed === undefined) return Promise.resolve(begin(inode, nic));
      return Promise.reject(failed.error);
    },
    killLeftovers: () => Promise.resolve(),
    requestLease: (inode, mac) =>
      [...running]
        .filter((server) => server.inode === inode)
        .map(({ nic }) => nic)
        .find((nic) => nic.mac === mac)?.lease,
    kill: (inode) => {
      for (const server of running) if (server.inode === inode) server.end("it was killed");
    },
    get count() {
      return running.size;
    },
    failNext: (error) => {
      failure = { error };
    },
  };
}
