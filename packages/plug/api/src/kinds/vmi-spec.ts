// SPDX-License-Identifier: Apache-2.0
// What a VMI is to be: the specification, one definition for type, schema and validation. Source: KubeVirt api/core/v1 schema.go; `pcieRootPorts` is ours.
import type { Static } from "typebox";
import { Type } from "../fields/schema.ts";
import { DEVICE_FIELDS } from "../fields/device-fields.ts";
import { DOMAIN_FIELDS, MEMORY_FIELDS } from "../fields/guest-fields.ts";
import { map, oneOf, onlyBuilt, quantity, text } from "../fields/notation.ts";
import { POD_FIELDS } from "../fields/pod-fields.ts";
import { UTILITY_VOLUME_FIELDS } from "../fields/volume-fields.ts";
import { ClockSchema } from "./guest/clock.ts";
import { CpuSchema } from "./guest/cpu.ts";
import { ChassisSchema, GUEST_DEVICES } from "./guest/devices.ts";
import { DiskSchema } from "./guest/disk.ts";
import { FeaturesSchema } from "./guest/features.ts";
import { FirmwareSchema } from "./guest/firmware.ts";
import { IfaceSchema, NetworkSchema } from "./network.ts";
import { AROUND_GUEST } from "./guest/around-guest.ts";
import { GUEST_PROBES } from "./guest/probe.ts";
import { VolumeSchema } from "./guest/volume.ts";
import { PCIE_ROOT_PORTS_MAX } from "../values/pcie-root-ports.ts";

/** An amount, for example 128Mi, or a number of bytes. Source: Kubernetes resource.Quantity. */
const QuantitySchema = (description: string) => Type.Unsafe<string | number>(quantity(description));

const MemorySchema = Type.Object(
  {
    guest: Type.Optional(QuantitySchema("Memory of the guest, for example 128Mi.")),
    ...MEMORY_FIELDS,
  },
  { description: "The guest's memory." },
);

const amounts = (description: string) =>
  Type.Optional(
    Type.Unsafe<Readonly<Record<string, string | number>>>(map(description, quantity("Amount."))),
  );

const ResourcesSchema = Type.Object(
  {
    requests: amounts(
      "Least of each resource; memory is the guest's where memory.guest is not set.",
    ),
    limits: amounts("Most of each resource, beside what the launcher takes for itself."),
    overcommitGuestOverhead: Type.Optional(
      Type.Boolean({ description: "What the launcher takes for itself is not requested." }),
    ),
  },
  { description: "What is asked of the node." },
);

const DevicesSchema = Type.Object(
  {
    disks: Type.Optional(
      Type.Array(DiskSchema, { description: "Disks, each from the volume of its name." }),
    ),
    interfaces: Type.Optional(
      Type.Array(IfaceSchema, {
        description: "NICs, each on the network of its name.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      }),
    ),
    networkInterfaceMultiqueue: Type.Optional(
      Type.Boolean({ description: "Interfaces get a pair of queues for each vCPU." }),
    ),
    pcieRootPorts: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: PCIE_ROOT_PORTS_MAX,
        description:
          "Interfaces that can be plugged while the VM runs, beside those it starts with; machine type q35.",
      }),
    ),
    ...GUEST_DEVICES,
    ...DEVICE_FIELDS,
  },
  { description: "Devices of the guest." },
);

const DomainSpecSchema = Type.Object(
  {
    machine: Type.Optional(
      Type.Object(
        { type: Type.Optional(Type.String({ description: "q35 or pc; q35 when empty." })) },
        { description: "The machine's kind." },
      ),
    ),
    cpu: Type.Optional(CpuSchema),
    memory: Type.Optional(MemorySchema),
    resources: Type.Optional(ResourcesSchema),
    firmware: Type.Optional(FirmwareSchema),
    clock: Type.Optional(ClockSchema),
    features: Type.Optional(FeaturesSchema),
    devices: Type.Optional(DevicesSchema),
    chassis: Type.Optional(ChassisSchema),
    ioThreadsPolicy: Type.Optional(
      Type.String({
        description:
          "How threads are shared between disks: shared or auto; disks have none of their own when absent.",
        ...onlyBuilt(oneOf("", "shared", "auto"), "use shared or auto"),
      }),
    ),
    ...DOMAIN_FIELDS,
  },
  { description: "The guest." },
);

/** The specification of a VMI, which the template of a VM holds too. */
export const VmiSpecSchema = Type.Object(
  {
    domain: DomainSpecSchema,
    networks: Type.Optional(
      Type.Array(NetworkSchema, {
        description: "Networks that the VM joins, each with the interface of its name.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
      }),
    ),
    terminationGracePeriodSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: "Seconds for the guest to shut down; 30 if absent.",
      }),
    ),
    startStrategy: Type.Optional(
      Type.String({ description: "Paused: the guest is started and waits to be resumed." }),
    ),
    evictionStrategy: Type.Optional(
      Type.String({
        description:
          "What happens when its pod is evicted, as by a drain. LiveMigrate: the VM is migrated; where it cannot be, the eviction is refused. LiveMigrateIfPossible: it is migrated, else shut down. External: the eviction is refused and the VMI is marked; somebody else moves it. None: it is shut down. The cluster's setting when absent.",
      }),
    ),
    nodeSelector: Type.Optional(
      Type.Unsafe<Readonly<Record<string, string>>>(
        map("Labels of the nodes on which the VM may run.", text("Value of the label.")),
      ),
    ),
    ...AROUND_GUEST,
    ...GUEST_PROBES,
    ...POD_FIELDS,
    volumes: Type.Optional(
      Type.Array(VolumeSchema, {
        description: "Where disks come from; one that no disk names is a disk of its own.",
      }),
    ),
    ...UTILITY_VOLUME_FIELDS,
  },
  { description: "What the VM is to be." },
);

/** What a guest is to be; of a VM's VMI virt-controller keeps the NICs as the VM has them. */
export type VmiSpec = Static<typeof VmiSpecSchema>;
