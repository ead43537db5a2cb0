// SPDX-License-Identifier: Apache-2.0
// What else does net-agent's DaemonSet need where it is the CNI plugin of the nodes' container runtimes? Pure.
import { isJsonObject, names, type JsonObject, type KubeObject } from "@patchbay/api";

const DAEMON_SET = "net-agent";
/** Where the plugin finds net-agent, on the host and in the pod. */
const SOCKET_DIR = "/run/net-agent";
/** Source: containerd and CRI-O, defaults of their CNI directories. */
const CONFIG_DIR = "/etc/cni/net.d";
const BIN_DIR = "/opt/cni/bin";
/** In the pod: its own program directories are the image's. */
const BIN_MOUNT = "/host/opt/cni/bin";

/** In the host's network other ports are others'. */
const FLAGS: readonly (readonly [flag: string, value: string])[] = [
  ["--health-port", "8481"],
  ["--metrics-port", "8482"],
  ["--cni-socket", `${SOCKET_DIR}/cni.sock`],
  ["--install-plugin", BIN_MOUNT],
  ["--runtime-config-dir", CONFIG_DIR],
  ["--own-pod", `${names.SERVICES_NAMESPACE}/$(K8S_POD_NAME)`],
];
/** Flags whose values must fit the pod's ports and mounts. */
export const POD_CREATION_FLAGS: readonly string[] = FLAGS.map(([flag]) => flag);
const PORTS: Readonly<Record<string, number>> = { health: 8481, metrics: 8482 };
const MOUNTS: readonly (readonly [name: string, path: string, hostPath: string])[] = [
  ["socket", SOCKET_DIR, SOCKET_DIR],
  ["plugins", BIN_MOUNT, BIN_DIR],
  ["network-configs", CONFIG_DIR, CONFIG_DIR],
];

/** Whether the object is net-agent's DaemonSet. */
function isAgent({ kind, metadata }: KubeObject): boolean {
  return kind === "DaemonSet" && metadata.name === DAEMON_SET;
}

function listOf(from: JsonObject, key: string): readonly unknown[] {
  const value = from[key];
  return Array.isArray(value) ? value : [];
}

function objectOf(from: JsonObject, key: string): JsonObject {
  const value = from[key];
  return isJsonObject(value) ? value : {};
}

function containersOf(object: KubeObject): readonly unknown[] {
  // A workload, as its kind says.
  const { spec = {} } = object as KubeObject & { readonly spec?: JsonObject };
  return listOf(objectOf(objectOf(spec, "template"), "spec"), "containers");
}

/** Whether an installation has net-agent as the plugin of the nodes' runtimes. */
export function isPodCreation(object: KubeObject): boolean {
  if (!isAgent(object)) return false;
  return containersOf(object).some(
    (container) =>
      isJsonObject(container) &&
      listOf(container, "args").some((arg) => String(arg).startsWith("--cni-socket=")),
  );
}

function toPort(port: unknown): unknown {
  if (!isJsonObject(port)) return port;
  return { ...port, containerPort: PORTS[String(port["name"])] ?? port["containerPort"] };
}

function toContainer(container: unknown): unknown {
  if (!isJsonObject(container)) return container;
  const isReplaced = (arg: unknown): boolean =>
    FLAGS.some(([flag]) => String(arg).startsWith(`${flag}=`));
  const podName = { name: "K8S_POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } };
  return {
    ...container,
    args: [
      ...listOf(container, "args").filter((arg) => !isReplaced(arg)),
      ...FLAGS.map(([flag, value]) => `${flag}=${value}`),
    ],
    env: [...listOf(container, "env"), podName],
    ports: listOf(container, "ports").map(toPort),
    volumeMounts: [
      ...listOf(container, "volumeMounts"),
      ...MOUNTS.map(([name, mountPath]) => ({ name, mountPath })),
    ],
  };
}

/**
 * The objects of an installation whose net-agent makes all networks of a pod when it is created. It is in the host's
 * network itself, since nobody else would make its own.
 */
export function withPodCreation(objects: readonly KubeObject[]): readonly KubeObject[] {
  return objects.map((object) => {
    if (!isAgent(object)) return object;
    const { spec } = object as KubeObject & { readonly spec: JsonObject };
    const template = objectOf(spec, "template");
    const pod = objectOf(template, "spec");
    const volumes = MOUNTS.map(([name, , path]) => {
      return { name, hostPath: { path, type: "DirectoryOrCreate" } };
    });
    const changed = {
      ...pod,
      hostNetwork: true,
      dnsPolicy: "ClusterFirstWithHostNet",
      containers: listOf(pod, "containers").map(toContainer),
      volumes: [...listOf(pod, "volumes"), ...volumes],
    };
    return { ...object, spec: { ...spec, template: { ...template, spec: changed } } };
  });
}
