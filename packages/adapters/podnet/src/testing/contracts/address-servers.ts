// SPDX-License-Identifier: Apache-2.0
// Contract of AddressServers, for the fake, and for dnsmasq with a client in a namespace.
import type { ServedNic } from "@patchbay/core/nics";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { NetnsHandle, AddressServers } from "@patchbay/core/interfaces";

/** A pod's namespace with a guest's NIC, at a bridge with the name and MAC of {@link SERVED_NIC}. */
export interface AddressServersBench {
  readonly servers: AddressServers;
  readonly netns: NetnsHandle;
  /** Returns the IPv4 address that the guest is offered, as ADDRESS/LENGTH; undefined if no server answers. */
  requestAddress(): Promise<string | undefined>;
  kill(): Promise<void>;
  close(): Promise<void>;
}

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

    test("assigns the guest its address until it is stopped", async () => {
      expect(await bench.requestAddress()).toBeUndefined();
      const server = await bench.servers.start(bench.netns, SERVED_NIC);
      expect(await bench.requestAddress()).toBe("10.9.0.5/24");
      await server.stop();
      expect(await bench.requestAddress()).toBeUndefined();
      expect(await server.ended).not.toBe("");
    });

    test("ignores other clients than the guest", async () => {
      const server = await bench.servers.start(bench.netns, {
        ...SERVED_NIC,
        mac: "02:00:00:00:5e:02",
      });
      expect(await bench.requestAddress()).toBeUndefined();
      await server.stop();
    });

    test("reports that it has died, and a new server can replace it", async () => {
      const server = await bench.servers.start(bench.netns, SERVED_NIC);
      await bench.kill();
      expect(await server.ended).not.toBe("");
      const next = await bench.servers.start(bench.netns, SERVED_NIC);
      expect(await bench.requestAddress()).toBe("10.9.0.5/24");
      await next.stop();
    });
  });
}
