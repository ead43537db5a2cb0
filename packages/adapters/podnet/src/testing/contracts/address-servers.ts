// SPDX-License-Identifier: Apache-2.0
// What every AddressServers must do; run on the fake and on dnsmasq with a client in a namespace.
import type { ServedNic } from "@patchbay/core/nics";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { NetnsHandle, AddressServers } from "@patchbay/core/interfaces";

/** A pod's namespace with a guest's NIC at a bridge of the name and MAC of {@link SERVED_NIC}. */
export interface AddressServersBench {
  readonly servers: AddressServers;
  readonly netns: NetnsHandle;
  /** The IPv4 address that the guest gets when it asks, ADDRESS/LENGTH; undefined: nobody answers. */
  ask(): Promise<string | undefined>;
  /** The server dies. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

/** What the suite serves. */
export const SERVED_NIC: ServedNic = {
  iface: "a",
  bridgeName: "k6t-c0ffee",
  mac: "02:00:00:00:5e:01",
  mtu: 1400,
  hostname: "guest1",
  lease: { ipv4: { address: "10.9.0.5/24", server: "169.254.75.10/32", routes: [] } },
  dns: { nameservers: [], search: [] },
  options: {},
};

/** The suite. */
export function describeAddressServersContract(
  name: string,
  make: () => Promise<AddressServersBench>,
): void {
  describe(`AddressServers: ${name}`, () => {
    let bench: AddressServersBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });

    test("gives the guest its address until it is stopped", async () => {
      expect(await bench.ask()).toBeUndefined();
      const server = await bench.servers.start(bench.netns, SERVED_NIC);
      expect(await bench.ask()).toBe("10.9.0.5/24");
      await server.stop();
      expect(await bench.ask()).toBeUndefined();
      expect(await server.ended).not.toBe("");
    });

    test("knows nobody but the guest", async () => {
      const server = await bench.servers.start(bench.netns, {
        ...SERVED_NIC,
        mac: "02:00:00:00:5e:02",
      });
      expect(await bench.ask()).toBeUndefined();
      await server.stop();
    });

    test("tells when it has died, and another takes its place", async () => {
      const server = await bench.servers.start(bench.netns, SERVED_NIC);
      await bench.kill();
      expect(await server.ended).not.toBe("");
      const next = await bench.servers.start(bench.netns, SERVED_NIC);
      expect(await bench.ask()).toBe("10.9.0.5/24");
      await next.stop();
    });
  });
}
