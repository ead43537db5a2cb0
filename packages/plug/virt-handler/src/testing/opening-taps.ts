// SPDX-License-Identifier: Apache-2.0
// A libvirt whose QEMU does with taps as QEMU does.
import { parseDomain } from "@patchbay/domain/parse";
import type { HypervisorConnection } from "@patchbay/core/ports";
import type { FakeDaemon } from "@patchbay/libvirt/testing";

/** What QEMU is to its surroundings. */
export interface Qemu {
  readonly daemon: Pick<FakeDaemon, "xmlOf">;
  openTap(tapName: string): void | Promise<void>;
  /** Changes what libvirt says of a domain. */
  disguise(xml: string): string;
}

/** As QEMU: a tap is opened when its device comes, and never again; by one into which a guest moves, before it goes on there. */
export function openingTaps(connection: HypervisorConnection, qemu: Qemu): HypervisorConnection {
  const openIn = async (xml = "<domain/>"): Promise<void> => {
    const parsed = parseDomain(xml);
    for (const { tapName } of parsed.ok ? parsed.domain.nics : []) {
      if (tapName !== undefined) await qemu.openTap(tapName);
    }
  };
  const proxied: Partial<HypervisorConnection> = {
    readDomainXml: async (name, target) =>
      qemu.disguise(await connection.readDomainXml(name, target)),
    attachDevice: async (name, xml, target) => {
      await connection.attachDevice(name, xml, target);
      if (target !== "config") await openIn(`<domain><devices>${xml}</devices></domain>`);
    },
    resumeDomain: async (name) => {
      await openIn(qemu.daemon.xmlOf(name, "live"));
      await connection.resumeDomain(name);
    },
    startDomain: async (name) => {
      await connection.startDomain(name);
      await openIn(qemu.daemon.xmlOf(name, "live"));
    },
  };
  return new Proxy(connection, {
    get: (target, name): unknown => {
      const own: unknown = Reflect.get(proxied, name);
      if (own !== undefined) return own;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}
