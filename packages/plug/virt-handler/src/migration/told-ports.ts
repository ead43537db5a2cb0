// SPDX-License-Identifier: Apache-2.0
// The ports at which the target's node listens, as the VMI's status tells them: what is behind each. Pure.
// Source: KubeVirt pkg/virt-handler/migration-proxy, whose numbers these are.
import type { MigrationState } from "@patchbay/api";
import { CHANNELS, type Channel, type Ports } from "../relays/words.ts";

const BEHIND: Readonly<Record<Channel, number>> = { libvirt: 0, memory: 49_152, disks: 49_153 };

type ToldPorts = NonNullable<MigrationState["targetDirectMigrationNodePorts"]>;

/** As they are told. */
export function tellPorts(ports: Ports): ToldPorts {
  return Object.fromEntries(
    CHANNELS.flatMap((channel) => {
      const port = ports[channel];
      return port === undefined ? [] : [[String(port), BEHIND[channel]] as const];
    }),
  );
}

/** As they were told; what is no port is left out. */
export function toldPorts(told: ToldPorts = {}): Ports {
  return Object.fromEntries(
    CHANNELS.flatMap((channel) => {
      const found = Object.entries(told).find(([, behind]) => behind === BEHIND[channel]);
      const port = Number(found?.[0]);
      const isPort = Number.isInteger(port) && port > 0 && port < 65_536;
      return isPort ? [[channel, port] as const] : [];
    }),
  );
}
