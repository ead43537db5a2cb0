// SPDX-License-Identifier: Apache-2.0
// VirtualMachineInstancetype and VirtualMachineClusterInstancetype: how large a VM is, by name. Source: KubeVirt
// api/instancetype/v1beta1 types.go.
import type { Static, TOptional, TUnsafe } from "typebox";
import { DEVICE_FIELDS } from "../../fields/device-fields.ts";
import { CPU_FIELDS, DOMAIN_FIELDS, MEMORY_FIELDS } from "../../fields/guest-fields.ts";
import { map, quantity, text } from "../../fields/notation.ts";
import { Type } from "../../fields/schema.ts";
import type { KubeObject } from "../kubernetes/meta.ts";

const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

/** Labels or annotations by name. */
export function words(description: string): TOptional<TUnsafe<Readonly<Record<string, string>>>> {
  return Type.Optional(
    Type.Unsafe<Readonly<Record<string, string>>>(map(description, text("Value."))),
  );
}

const CpuSchema = Type.Object(
  {
    guest: Type.Integer({
      minimum: 1,
      description: "Virtual CPUs; a preference says how they are arranged, sockets else.",
    }),
    maxSockets: Type.Optional(
      Type.Integer({
        minimum: 1,
        description: "Most sockets that could be plugged while the guest runs.",
      }),
    ),
    model: Type.Optional(Type.String({ description: "Model that the guest sees." })),
    dedicatedCPUPlacement: flag("Each vCPU has a processor of the node for itself."),
    isolateEmulatorThread: flag("One more processor for the emulator's own work."),
    numa: CPU_FIELDS.numa,
    realtime: CPU_FIELDS.realtime,
  },
  { description: "Processors." },
);

const MemorySchema = Type.Object(
  {
    guest: Type.Unsafe<string | number>(quantity("Memory of the guest, for example 2Gi.")),
    overcommitPercent: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 100,
        description: "So much less of it is requested of the node, in percent.",
      }),
    ),
    hugepages: MEMORY_FIELDS.hugepages,
    maxGuest: MEMORY_FIELDS.maxGuest,
  },
  { description: "Memory." },
);

/** What of a VM an instancetype decides; the VM itself then must not. */
export const InstancetypeSpecSchema = Type.Object(
  {
    cpu: CpuSchema,
    memory: MemorySchema,
    nodeSelector: words("Labels of the nodes on which the VM may run."),
    schedulerName: Type.Optional(Type.String({ description: "Scheduler of the pod." })),
    annotations: words("Annotations of the VMI."),
    ioThreadsPolicy: Type.Optional(
      Type.String({ description: "How threads are shared between disks: shared or auto." }),
    ),
    ioThreads: DOMAIN_FIELDS.ioThreads,
    gpus: DEVICE_FIELDS.gpus,
    hostDevices: DEVICE_FIELDS.hostDevices,
    launchSecurity: DOMAIN_FIELDS.launchSecurity,
  },
  { description: "How large a VM is, and where it runs." },
);

/** What of a VM an instancetype decides. */
export type InstancetypeSpec = Static<typeof InstancetypeSpecSchema>;

/** An instancetype, of a namespace or of the cluster. */
export interface Instancetype extends KubeObject {
  readonly spec: InstancetypeSpec;
}
