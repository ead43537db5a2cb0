// SPDX-License-Identifier: Apache-2.0
// Specification of a VMI. Source: KubeVirt api/core/v1 schema.go, types.go. Patchbay adds `pcieRootPorts`.
import { Type } from "../fields/schema.ts";
import {
  anything,
  integer,
  list,
  object,
  text,
  type JsonSchema,
  map,
  oneOf,
  supportedValues,
  quantity,
} from "../fields/notation.ts";
import type { Probe } from "./kubernetes/pod.ts";
import type { Static } from "typebox";
import {
  DEVICE_FIELDS,
  DOMAIN_FIELDS,
  MEMORY_FIELDS,
  POD_FIELDS,
  UTILITY_VOLUME_FIELDS,
} from "../fields/unacted-fields.ts";
import {
  ClockSchema,
  CpuSchema,
  ChassisSchema,
  GUEST_DEVICES,
  FeaturesSchema,
  FirmwareSchema,
} from "./guest/machine.ts";
import { DiskSchema, VolumeSchema } from "./guest/disks.ts";
import { IfaceSchema, NetworkSchema } from "./network.ts";
import { PCIE_ROOT_PORTS_MAX } from "../values/pci.ts";

/** Kubernetes object that virt-controller copies to the pod without validation. */
type OpaqueObject = Readonly<Record<string, unknown>>;

const TOLERATION = object("One toleration.", {
  key: text("Key of the taint."),
  operator: text("Exists or Equal."),
  value: text("Value of the taint."),
  effect: text("NoSchedule, PreferNoSchedule or NoExecute."),
  tolerationSeconds: integer("Seconds for which NoExecute is tolerated."),
});

/** DNS settings of a pod. Source: Kubernetes PodDNSConfig. */
export interface DnsConfig {
  readonly nameservers?: readonly string[];
  readonly searches?: readonly string[];
  readonly options?: readonly { readonly name?: string; readonly value?: string }[];
}

const DNS_CONFIG = object("DNS settings of the pod.", {
  nameservers: list("Servers.", text("Address.")),
  searches: list("Domains that are searched.", text("Domain.")),
  options: list(
    "Options of the resolver.",
    object("One option.", { name: text("Name."), value: text("Value.") }),
  ),
});

/** Fields of `spec` that virt-controller copies to the launcher pod. */
const POD_PASSTHROUGH_FIELDS = {
  affinity: Type.Optional(
    Type.Unsafe<OpaqueObject>(anything("Rules for the nodes and pods near which the VM runs.")),
  ),
  dnsConfig: Type.Optional(Type.Unsafe<DnsConfig>(DNS_CONFIG)),
  dnsPolicy: Type.Optional(Type.Unsafe<string>(text("DNS policy of the pod."))),
  hostname: Type.Optional(
    Type.Unsafe<string>(
      text("Name of the guest, by cloud-init, and of the pod; the VM's name when absent."),
    ),
  ),
  priorityClassName: Type.Optional(Type.Unsafe<string>(text("Priority of the pod."))),
  schedulerName: Type.Optional(Type.Unsafe<string>(text("Scheduler of the pod."))),
  subdomain: Type.Optional(Type.Unsafe<string>(text("Domain of the host name."))),
  tolerations: Type.Optional(
    Type.Unsafe<readonly OpaqueObject[]>(list("Node taints that the VM tolerates.", TOLERATION)),
  ),
  topologySpreadConstraints: Type.Optional(
    Type.Unsafe<readonly OpaqueObject[]>(
      list("How VMs are spread over nodes.", anything("One constraint.")),
    ),
  ),
};

/** Probe of a guest. Admission requires exactly one handler. Times are in seconds. Source: KubeVirt api/core/v1 types.go Probe. */
export interface GuestProbe extends Omit<Probe, "grpc"> {
  readonly guestAgentPing?: object;
}

const port: JsonSchema = {
  description: "Number or name of the port.",
  "x-kubernetes-int-or-string": true,
};
const host = text("Host; the pod's address when absent.");

function probe(description: string) {
  const schema = object(description, {
    exec: object("A command that the guest's agent runs.", {
      command: list("Command and arguments.", text("One argument.")),
    }),
    guestAgentPing: object("The guest's agent answers."),
    httpGet: object(
      "An HTTP request.",
      {
        host,
        path: text("Path."),
        port,
        scheme: text("HTTP or HTTPS."),
        httpHeaders: list(
          "Headers of the request.",
          object("One header.", { name: text("Name."), value: text("Value.") }, ["name", "value"]),
        ),
      },
      ["port"],
    ),
    tcpSocket: object("A TCP connection.", { host, port }, ["port"]),
    failureThreshold: integer("Failures in a row before it counts as failed; 3 when absent."),
    initialDelaySeconds: integer("Seconds after the start before the first try."),
    periodSeconds: integer("Seconds between tries; 10 when absent."),
    successThreshold: integer("Successes in a row before it counts as well; 1 when absent."),
    timeoutSeconds: integer("Seconds in which an answer must come; 1 when absent."),
  });
  return Type.Optional(Type.Unsafe<GuestProbe>(schema));
}

const GUEST_PROBES = {
  livenessProbe: probe("Probe of the guest's health; the guest is stopped when it fails."),
  readinessProbe: probe("Probe of the guest's readiness, which Services respect."),
};

/** Builds the schema of a quantity: a number of bytes, or a string such as 128Mi. Source: Kubernetes resource.Quantity. */
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
      "Requested resources; memory is the guest's size if memory.guest is not set.",
    ),
    limits: amounts("Maximum of each resource, without the launcher's overhead."),
    overcommitGuestOverhead: Type.Optional(
      Type.Boolean({ description: "Does not request the launcher's overhead." }),
    ),
  },
  { description: "Resources requested from the node." },
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
    maxNetworkInterfaceQueues: Type.Optional(
      Type.Integer({
        description:
          "Maximum number of queue pairs of each interface, within the cluster's limit. Needs feature gate NetworkInterfaceQueueLimits.",
      }),
    ),
    pcieRootPorts: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: PCIE_ROOT_PORTS_MAX,
        description:
          "Number of interfaces that can be plugged while the VM runs; machine type q35 only.",
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
        { description: "Machine type." },
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
        ...supportedValues(oneOf("", "shared", "auto"), "use shared or auto"),
      }),
    ),
    ...DOMAIN_FIELDS,
  },
  { description: "The guest." },
);

/** A claim of the pod. Besides `name`, exactly one field is set. Source: Kubernetes PodResourceClaim. */
const ResourceClaimSchema = Type.Object(
  {
    name: Type.String({ description: "Name within the VM." }),
    resourceClaimName: Type.Optional(
      Type.String({ description: "An existing ResourceClaim in the VM's namespace." }),
    ),
    resourceClaimTemplateName: Type.Optional(
      Type.String({
        description: "A ResourceClaimTemplate, from which each start of the VM gets a claim.",
      }),
    ),
  },
  { description: "One claim." },
);

/** Schema of the specification of a VMI and of a VM's template. */
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
    resourceClaims: Type.Optional(
      Type.Array(ResourceClaimSchema, {
        description:
          "Resource claims of the pod, whose devices networks name. Needs feature gate NetworkDevicesWithDRA.",
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
          "What happens when its pod is evicted, as by a drain. LiveMigrate: the VM is migrated; where it cannot be, the eviction is refused. LiveMigrateIfPossible: it is migrated, else shut down. External: the eviction is refused and the VMI is marked; an external controller migrates it. None: it is shut down. The cluster's setting when absent.",
      }),
    ),
    nodeSelector: Type.Optional(
      Type.Unsafe<Readonly<Record<string, string>>>(
        map("Labels of the nodes on which the VM may run.", text("Value of the label.")),
      ),
    ),
    ...POD_PASSTHROUGH_FIELDS,
    ...GUEST_PROBES,
    ...POD_FIELDS,
    volumes: Type.Optional(
      Type.Array(VolumeSchema, {
        description: "Sources of disks; a volume that no disk names becomes a disk.",
      }),
    ),
    ...UTILITY_VOLUME_FIELDS,
  },
  { description: "Specification of the guest and its pod." },
);

/** Specification of a VMI. virt-controller updates it when the NICs of its VM change. */
export type VmiSpec = Static<typeof VmiSpecSchema>;
