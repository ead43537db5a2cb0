// SPDX-License-Identifier: Apache-2.0
// A libvirt whose QEMU opens taps.
import { parseDomain } from "@patchbay/domain/parse";
import type { HypervisorConnection } from "@patchbay/core/interfaces";
import type { FakeDaemon } from "@patchbay/libvirt/testing";

export interface Qemu {
  readonly daemon: Pick<FakeDaemon, "readXml">;
  openTap(tapName: string): void | Promise<void>;
  /** Changes the domain XML that libvirt returns. */
  rewriteXml(xml: string): string;
}

/** Opens taps like QEMU: when a device is added, and never again. An incoming guest's taps are opened before it resumes. */
export function openingTaps(connection: HypervisorConnection, qemu: Qemu): HypervisorConnection {
  const openIn = async (xml = "<domain/>"): Promise<void> => {
    const parsed = parseDomain(xml);
    for (const { tapName } of parsed.ok ? parsed.domain.nics : []) {
      if (tapName !== undefined) await qemu.openTap(tapName);
    }
  };
  const proxied: Partial<HypervisorConnection> = {
    readDomainXml: async (name, target) =>
      qemu.rewriteXml(await connection.readDomainXml(name, target)),
    attachDevice: async (name, xml, target) => {
      await connection.attachDevice(name, xml, target);
      if (target !== "config") await openIn(`<domain><devices>${xml}</devices></domain>`);
    },
    resumeDomain: async (name) => {
      await openIn(qemu.daemon.readXml(name, "live"));
      await connection.resumeDomain(name);
    },
    startDomain: async (name) => {
      await connection.startDomain(name);
      await openIn(qemu.daemon.readXml(name, "live"));
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
