// SPDX-License-Identifier: Apache-2.0
// Fields of `status.migrationState`.
import {
  type MigrationState,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { CHANNELS, type Channel, type Ports } from "../relays/protocol.ts";
import { keyOf } from "@patchbay/kube";
import type { Deps } from "../deps.ts";

const STATUS_PORT_NUMBERS: Readonly<Record<Channel, number>> = {
  libvirt: 0,
  memory: 49_152,
  disks: 49_153,
};

type StatusPorts = NonNullable<MigrationState["targetDirectMigrationNodePorts"]>;

/** Source of the numbers: KubeVirt pkg/virt-handler/migration-proxy. */
export function formatPorts(ports: Ports): StatusPorts {
  return Object.fromEntries(
    CHANNELS.flatMap((channel) => {
      const port = ports[channel];
      return port === undefined ? [] : [[String(port), STATUS_PORT_NUMBERS[channel]] as const];
    }),
  );
}

export function parsePorts(current: StatusPorts = {}): Ports {
  return Object.fromEntries(
    CHANNELS.flatMap((channel) => {
      const found = Object.entries(current).find(
        ([, statusNumber]) => statusNumber === STATUS_PORT_NUMBERS[channel],
      );
      const port = Number(found?.[0]);
      const isPort = Number.isInteger(port) && port > 0 && port < 65_536;
      return isPort ? [[channel, port] as const] : [];
    }),
  );
}

const PATH = "/status/migrationState";

/** The patch tests that the migration is still the same one, or that no field of its state has changed. */
type Tested = "migration" | "all";

function buildTest(current: MigrationState, tested: Tested): JsonPatchOperation {
  return tested === "all"
    ? { op: "test", path: PATH, value: current }
    : { op: "test", path: `${PATH}/migrationUid`, value: current.migrationUid };
}

/** @throws AppError with KUBE_CONFLICT when the tested part of the migration state has changed */
export async function writeMigrationState(
  vmi: VirtualMachineInstance,
  fields: Partial<MigrationState>,
  { deps, test = "migration" }: { readonly deps: Deps; readonly test?: Tested },
): Promise<void> {
  const current = vmi.status?.migrationState ?? {};
  const changes = Object.entries(fields).map(([field, value]): JsonPatchOperation => ({
    op: "add",
    path: `${PATH}/${field}`,
    value,
  }));
  const patch = { type: "json", operations: [buildTest(current, test), ...changes] } as const;
  const options = { subresource: "status" } as const;
  const { store, ownWrites } = deps;
  ownWrites.note(await store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options));
}
