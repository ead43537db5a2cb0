// SPDX-License-Identifier: Apache-2.0
// Every path below `/apis/subresources.kubevirt.io/VERSION`, for routes, discovery and OpenAPI. Source: KubeVirt pkg/virt-api/api.go.

import { RELAY_CERTIFICATE } from "@patchbay/core/guest";

/** API versions, the preferred one first. All have the same routes. Source: KubeVirt SubresourceGroupVersions. */
export const VERSIONS = ["v1", "v1alpha3"] as const;

export type Version = (typeof VERSIONS)[number];

export type Method = "get" | "put";

export interface Entry {
  readonly method: Method;
  /** What the route does; for a rejected route, the missing feature. */
  readonly about: string;
}

export const KINDS = {
  virtualmachines: "VirtualMachine",
  virtualmachineinstances: "VirtualMachineInstance",
} as const;

export type Resource = keyof typeof KINDS;

const FORWARD = { method: "get", about: "Connects to a port of the guest, by WebSocket" } as const;
const FORWARDING = {
  "portforward/{port}": FORWARD,
  "portforward/{port}/{protocol}": FORWARD,
} as const;
const CANCEL_EVACUATION = {
  method: "put",
  about: "Cancels the evacuation of a guest from its node",
} as const;
const PLUG = { method: "put", about: "Plugs a NIC" } as const;
const UNPLUG = { method: "put", about: "Unplugs a NIC" } as const;

export const SERVED = {
  virtualmachines: {
    addinterface: PLUG,
    "evacuate/cancel": CANCEL_EVACUATION,
    "expand-spec": {
      method: "get",
      about: "Returns the VM with its instancetype and preference applied",
    },
    migrate: { method: "put", about: "Live-migrates the VM" },
    ...FORWARDING,
    removeinterface: UNPLUG,
    restart: { method: "put", about: "Restarts the VM" },
    start: { method: "put", about: "Starts the VM" },
    stop: { method: "put", about: "Stops the VM" },
  },
  virtualmachineinstances: {
    addinterface: PLUG,
    capture: { method: "get", about: "Shows packets of an interface, by WebSocket" },
    console: { method: "get", about: "Connects to the serial console, by WebSocket" },
    "evacuate/cancel": CANCEL_EVACUATION,
    doctor: { method: "get", about: "Reports at which hop frames of an interface are lost" },
    filesystemlist: { method: "get", about: "Returns the guest's file systems" },
    guestosinfo: { method: "get", about: "Returns what the guest agent reports" },
    interfacetraffic: { method: "get", about: "Returns the traffic counters of each NIC" },
    pause: { method: "put", about: "Pauses the VM" },
    ...FORWARDING,
    removeinterface: UNPLUG,
    reset: { method: "put", about: "Resets the VM, as its reset button would" },
    softreboot: { method: "put", about: "Requests a reboot of the guest" },
    unpause: { method: "put", about: "Resumes the VM" },
    userlist: { method: "get", about: "Returns the users who are logged in to the guest" },
    vnc: { method: "get", about: "Connects to the screen, by WebSocket" },
    "vnc/screenshot": { method: "get", about: "Returns a picture of the screen, as PNG" },
  },
} as const satisfies Readonly<Record<Resource, Readonly<Record<string, Entry>>>>;

/** Routes that concern the whole installation, for every authenticated user and for agents. */
export const GENERAL = {
  guestfs: { method: "get", about: "Rejected: Patchbay has no image of libguestfs" },
  [RELAY_CERTIFICATE]: {
    method: "put",
    about: "Signs the certificate that an agent's node uses for migrations",
  },
  healthz: { method: "get", about: "Reports whether virt-api reaches the API server" },
  version: { method: "get", about: "Returns the version of virt-api" },
} as const satisfies Readonly<Record<string, Entry>>;

export const IN_NAMESPACE = {
  "expand-vm-spec": {
    method: "put",
    about: "Returns the VM of the body with its instancetype and preference applied",
  },
} as const satisfies Readonly<Record<string, Entry>>;

function missingFeature(
  about: string,
  method: Method,
  ...paths: readonly string[]
): [string, Entry][] {
  return paths.map((path) => [path, { method, about }]);
}

const DISKS = missingFeature("plugging disks (HotplugVolumes)", "put", "addvolume", "removevolume");
const GRAPH = missingFeature("the object graph (ObjectGraph)", "get", "objectgraph");
/** Feature name with a hint, because virtctl creates the claim before it sends the request. */
const MEMORY_DUMP =
  "memory dumps (delete a claim that --create-claim has just made: kubectl delete pvc CLAIM)";
export const REFUSED: Readonly<Record<Resource, Readonly<Record<string, Entry>>>> = {
  virtualmachines: Object.fromEntries([
    ...DISKS,
    ...missingFeature(MEMORY_DUMP, "put", "memorydump"),
    ...missingFeature("memory dumps", "put", "removememorydump"),
    ...GRAPH,
  ]),
  virtualmachineinstances: Object.fromEntries([
    ...DISKS,
    ...missingFeature("backup", "put", "backup", "redefine-checkpoint"),
    ...missingFeature("freezing file systems", "put", "freeze", "unfreeze"),
    ...GRAPH,
    ...missingFeature(
      "AMD SEV (launchSecurity)",
      "get",
      "sev/fetchcertchain",
      "sev/querylaunchmeasurement",
    ),
    ...missingFeature(
      "AMD SEV (launchSecurity)",
      "put",
      "sev/setupsession",
      "sev/injectlaunchsecret",
    ),
    ...missingFeature("USB redirection (clientPassthrough)", "get", "usbredir"),
    ...missingFeature("VSOCK (autoattachVSOCK)", "get", "vsock"),
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
  const entries: Readonly<Record<string, Entry>> = (isRefused ? REFUSED : SERVED)[resource];
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
  ...Object.entries(IN_NAMESPACE).map(([name, entry]) => ({
    ...entry,
    path: namespacePath(name),
    call: name,
    kind: KINDS.virtualmachines,
    isRefused: false,
  })),
  ...Object.entries(GENERAL).map(([name, entry]) => ({
    ...entry,
    path: name,
    call: name,
    isRefused: false,
  })),
  ...RESOURCES.flatMap((resource) => listRoutes(resource, true)),
];
