// SPDX-License-Identifier: Apache-2.0
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

/** Maps each TCP port to KubeVirt's number for its channel. Source: KubeVirt, pkg/virt-handler/migration-proxy. */
export function formatPorts(ports: Ports): StatusPorts {
  return Object.fromEntries(
    CHANNELS.flatMap((channel) => {
      const port = ports[channel];
      return port === undefined ? [] : [[String(port), STATUS_PORT_NUMBERS[channel]] as const];
    }),
  );
}

export function parsePorts(statusPorts: StatusPorts = {}): Ports {
  return Object.fromEntries(
    CHANNELS.flatMap((channel) => {
      const entry = Object.entries(statusPorts).find(
        ([, statusNumber]) => statusNumber === STATUS_PORT_NUMBERS[channel],
      );
      const port = Number(entry?.[0]);
      const isPort = Number.isInteger(port) && port > 0 && port < 65_536;
      return isPort ? [[channel, port] as const] : [];
    }),
  );
}

const STATE_PATH = "/status/migrationState";

/** Part of the migration state that must be unchanged when a patch is applied: the UID of the migration, or all fields. */
type TestedPart = "migration" | "all";

function buildTest(current: MigrationState, testedPart: TestedPart): JsonPatchOperation {
  return testedPart === "all"
    ? { op: "test", path: STATE_PATH, value: current }
    : { op: "test", path: `${STATE_PATH}/migrationUid`, value: current.migrationUid };
}

/** Writes the fields. @throws AppError with KUBE_CONFLICT if the part of the migration state that `test` selects has changed */
export async function writeMigrationState(
  vmi: VirtualMachineInstance,
  fields: Partial<MigrationState>,
  { deps, test = "migration" }: { readonly deps: Deps; readonly test?: TestedPart },
): Promise<void> {
  const current = vmi.status?.migrationState ?? {};
  const changes = Object.entries(fields).map(([field, value]): JsonPatchOperation => ({
    op: "add",
    path: `${STATE_PATH}/${field}`,
    value,
  }));
  const patch = { type: "json", operations: [buildTest(current, test), ...changes] } as const;
  const options = { subresource: "status" } as const;
  const { store, mutationCache } = deps;
  mutationCache.note(await store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options));
}
