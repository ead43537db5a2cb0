// SPDX-License-Identifier: Apache-2.0
// Routes below `/apis/subresources.kubevirt.io/VERSION`, for requests, discovery and OpenAPI. Source: KubeVirt pkg/virt-api/api.go.

import { RELAY_CERTIFICATE } from "@patchbay/core/guest";

/** API versions, the preferred version first. All versions have the same routes. Source: KubeVirt SubresourceGroupVersions. */
export const VERSIONS = ["v1", "v1alpha3"] as const;

export type Version = (typeof VERSIONS)[number];

export type Method = "get" | "put";

export interface Entry {
  readonly method: Method;
  /** Description of the route, or the name of the missing feature if virt-api rejects the route. */
  readonly description: string;
}

export const KINDS = {
  virtualmachines: "VirtualMachine",
  virtualmachineinstances: "VirtualMachineInstance",
} as const;

export type Resource = keyof typeof KINDS;

const FORWARD_PORT = {
  method: "get",
  description: "Connects to a port of the guest, by WebSocket",
} as const;
const FORWARD_PORT_ROUTES = {
  "portforward/{port}": FORWARD_PORT,
  "portforward/{port}/{protocol}": FORWARD_PORT,
} as const;
const CANCEL_EVACUATION = {
  method: "put",
  description: "Cancels the evacuation of a guest from its node",
} as const;
const PLUG_NIC = { method: "put", description: "Plugs a NIC" } as const;
const UNPLUG_NIC = { method: "put", description: "Unplugs a NIC" } as const;

export const SERVED_ROUTES = {
  virtualmachines: {
    addinterface: PLUG_NIC,
    "evacuate/cancel": CANCEL_EVACUATION,
    "expand-spec": {
      method: "get",
      description: "Returns the VM with its instancetype and preference applied",
    },
    migrate: { method: "put", description: "Live-migrates the VM" },
    ...FORWARD_PORT_ROUTES,
    removeinterface: UNPLUG_NIC,
    restart: { method: "put", description: "Restarts the VM" },
    start: { method: "put", description: "Starts the VM" },
    stop: { method: "put", description: "Stops the VM" },
  },
  virtualmachineinstances: {
    addinterface: PLUG_NIC,
    capture: { method: "get", description: "Shows packets of an interface, by WebSocket" },
    console: { method: "get", description: "Connects to the serial console, by WebSocket" },
    "evacuate/cancel": CANCEL_EVACUATION,
    doctor: { method: "get", description: "Reports at which hop frames of an interface are lost" },
    filesystemlist: { method: "get", description: "Returns the guest's file systems" },
    guestosinfo: { method: "get", description: "Returns what the guest agent reports" },
    interfacetraffic: { method: "get", description: "Returns the traffic counters of each NIC" },
    pause: { method: "put", description: "Pauses the VM" },
    ...FORWARD_PORT_ROUTES,
    removeinterface: UNPLUG_NIC,
    reset: { method: "put", description: "Resets the VM, as its reset button would" },
    softreboot: { method: "put", description: "Requests a reboot of the guest" },
    unpause: { method: "put", description: "Resumes the VM" },
    userlist: { method: "get", description: "Returns the users who are logged in to the guest" },
    vnc: { method: "get", description: "Connects to the screen, by WebSocket" },
    "vnc/screenshot": { method: "get", description: "Returns a picture of the screen, as PNG" },
  },
} as const satisfies Readonly<Record<Resource, Readonly<Record<string, Entry>>>>;

/** Routes that contain no namespace. */
export const GENERAL_ROUTES = {
  guestfs: { method: "get", description: "Rejected: Patchbay has no image of libguestfs" },
  [RELAY_CERTIFICATE]: {
    method: "put",
    description: "Signs the certificate that an agent's node uses for migrations",
  },
  healthz: { method: "get", description: "Reports whether virt-api reaches the API server" },
  version: { method: "get", description: "Returns the version of virt-api" },
} as const satisfies Readonly<Record<string, Entry>>;

export const NAMESPACE_ROUTES = {
  "expand-vm-spec": {
    method: "put",
    description: "Returns the VM of the body with its instancetype and preference applied",
  },
} as const satisfies Readonly<Record<string, Entry>>;

function buildRejectedEntries(
  description: string,
  method: Method,
  ...paths: readonly string[]
): [string, Entry][] {
  return paths.map((path) => [path, { method, description }]);
}

const DISK_ROUTES = buildRejectedEntries(
  "plugging disks (HotplugVolumes)",
  "put",
  "addvolume",
  "removevolume",
);
const GRAPH_ROUTES = buildRejectedEntries("the object graph (ObjectGraph)", "get", "objectgraph");
/** Missing feature, with a hint to delete the claim that virtctl creates before virt-api rejects the request. */
const MEMORY_DUMP =
  "memory dumps (delete a claim that --create-claim has just made: kubectl delete pvc CLAIM)";
export const REJECTED_ROUTES: Readonly<Record<Resource, Readonly<Record<string, Entry>>>> = {
  virtualmachines: Object.fromEntries([
    ...DISK_ROUTES,
    ...buildRejectedEntries(MEMORY_DUMP, "put", "memorydump"),
    ...buildRejectedEntries("memory dumps", "put", "removememorydump"),
    ...GRAPH_ROUTES,
  ]),
  virtualmachineinstances: Object.fromEntries([
    ...DISK_ROUTES,
    ...buildRejectedEntries("backup", "put", "backup", "redefine-checkpoint"),
    ...buildRejectedEntries("freezing file systems", "put", "freeze", "unfreeze"),
    ...GRAPH_ROUTES,
    ...buildRejectedEntries(
      "AMD SEV (launchSecurity)",
      "get",
      "sev/fetchcertchain",
      "sev/querylaunchmeasurement",
    ),
    ...buildRejectedEntries(
      "AMD SEV (launchSecurity)",
      "put",
      "sev/setupsession",
      "sev/injectlaunchsecret",
    ),
    ...buildRejectedEntries("USB redirection (clientPassthrough)", "get", "usbredir"),
    ...buildRejectedEntries("VSOCK (autoattachVSOCK)", "get", "vsock"),
  ]),
};

export interface Route extends Entry {
  /** Path below the version, with OpenAPI parameters. */
  readonly path: string;
  readonly call: string;
  readonly kind?: (typeof KINDS)[Resource];
  readonly isRefused: boolean;
}

export function subresourcePath(resource: string, subresource: string): string {
  return `namespaces/{namespace}/${resource}/{name}/${subresource}`;
}

export function namespacePath(name: string): string {
  return `namespaces/{namespace}/${name}`;
}

function listRoutes(resource: Resource, isRefused: boolean): readonly Route[] {
  const entries: Readonly<Record<string, Entry>> = (isRefused ? REJECTED_ROUTES : SERVED_ROUTES)[
    resource
  ];
  return Object.entries(entries).map(([subresource, entry]) => ({
    ...entry,
    path: subresourcePath(resource, subresource),
    call: subresource.split("/")[0] ?? "",
    kind: KINDS[resource],
    isRefused,
  }));
}

const RESOURCES: readonly Resource[] = ["virtualmachines", "virtualmachineinstances"];

export const ROUTES: readonly Route[] = [
  ...RESOURCES.flatMap((resource) => listRoutes(resource, false)),
  ...Object.entries(NAMESPACE_ROUTES).map(([name, entry]) => ({
    ...entry,
    path: namespacePath(name),
    call: name,
    kind: KINDS.virtualmachines,
    isRefused: false,
  })),
  ...Object.entries(GENERAL_ROUTES).map(([name, entry]) => ({
    ...entry,
    path: name,
    call: name,
    isRefused: false,
  })),
  ...RESOURCES.flatMap((resource) => listRoutes(resource, true)),
];
