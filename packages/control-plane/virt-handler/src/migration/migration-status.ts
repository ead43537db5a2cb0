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

/** Formats the ports for the status. Source of the numbers: KubeVirt pkg/virt-handler/migration-proxy. */
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

const STATE_PATH = "/status/migrationState";

/** What the patch tests: that the migration is the same, or that its whole state is unchanged. */
type TestedPart = "migration" | "all";

function buildTest(current: MigrationState, testedPart: TestedPart): JsonPatchOperation {
  return testedPart === "all"
    ? { op: "test", path: STATE_PATH, value: current }
    : { op: "test", path: `${STATE_PATH}/migrationUid`, value: current.migrationUid };
}

/** Writes the fields. @throws AppError with KUBE_CONFLICT when the tested part of the migration state has changed */
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
