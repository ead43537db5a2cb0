// SPDX-License-Identifier: Apache-2.0
// Changes net-agent's DaemonSet, so that net-agent becomes the CNI plugin of the container runtimes.
import { names } from "@patchbay/api";
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import type { KubeObject } from "@patchbay/api/kubernetes";

const DAEMON_SET = "net-agent";
/** Directory of net-agent's socket, on the host and in the pod. */
const SOCKET_DIR = "/run/net-agent";
/** Directory of CNI configurations on the host. Source: defaults of containerd and CRI-O. */
const CONFIG_DIR = "/etc/cni/net.d";
const BIN_DIR = "/opt/cni/bin";
/** Path at which the pod mounts the host's plugin directory. In the pod, /opt/cni/bin is the image's own directory. */
const BIN_MOUNT = "/host/opt/cni/bin";

/** Flags of net-agent. The ports differ from the defaults, which other programs on the host's network may use. */
const FLAGS: readonly (readonly [flag: string, value: string])[] = [
  ["--health-port", "8481"],
  ["--metrics-port", "8482"],
  ["--cni-socket", `${SOCKET_DIR}/cni.sock`],
  ["--install-plugin", BIN_MOUNT],
  ["--runtime-config-dir", CONFIG_DIR],
  ["--own-pod", `${names.SERVICES_NAMESPACE}/$(K8S_POD_NAME)`],
];
export const POD_CREATION_FLAGS: readonly string[] = FLAGS.map(([flag]) => flag);
const PORTS: Readonly<Record<string, number>> = { health: 8481, metrics: 8482 };
const MOUNTS: readonly (readonly [name: string, path: string, hostPath: string])[] = [
  ["socket", SOCKET_DIR, SOCKET_DIR],
  ["plugins", BIN_MOUNT, BIN_DIR],
  ["network-configs", CONFIG_DIR, CONFIG_DIR],
];

function isAgent({ kind, metadata }: KubeObject): boolean {
  return kind === "DaemonSet" && metadata.name === DAEMON_SET;
}

function readList(from: JsonObject, key: string): readonly unknown[] {
  const value = from[key];
  return Array.isArray(value) ? value : [];
}

function readObject(from: JsonObject, key: string): JsonObject {
  const value = from[key];
  return isJsonObject(value) ? value : {};
}

function listContainers(object: KubeObject): readonly unknown[] {
  // The cast is safe, because the object is a DaemonSet.
  const { spec = {} } = object as KubeObject & { readonly spec?: JsonObject };
  return readList(readObject(readObject(spec, "template"), "spec"), "containers");
}

export function isPodCreation(object: KubeObject): boolean {
  if (!isAgent(object)) return false;
  return listContainers(object).some(
    (container) =>
      isJsonObject(container) &&
      readList(container, "args").some((arg) => String(arg).startsWith("--cni-socket=")),
  );
}

function replacePort(port: unknown): unknown {
  if (!isJsonObject(port)) return port;
  return { ...port, containerPort: PORTS[String(port["name"])] ?? port["containerPort"] };
}

function changeContainer(container: unknown): unknown {
  if (!isJsonObject(container)) return container;
  const isReplaced = (arg: unknown): boolean =>
    FLAGS.some(([flag]) => String(arg).startsWith(`${flag}=`));
  const podName = { name: "K8S_POD_NAME", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } };
  return {
    ...container,
    args: [
      ...readList(container, "args").filter((arg) => !isReplaced(arg)),
      ...FLAGS.map(([flag, value]) => `${flag}=${value}`),
    ],
    env: [...readList(container, "env"), podName],
    ports: readList(container, "ports").map(replacePort),
    volumeMounts: [
      ...readList(container, "volumeMounts"),
      ...MOUNTS.map(([name, mountPath]) => ({ name, mountPath })),
    ],
  };
}

/** Makes net-agent attach pods to all their networks. net-agent's own pods use the host's network, which needs no CNI plugin. */
export function withPodCreation(objects: readonly KubeObject[]): readonly KubeObject[] {
  return objects.map((object) => {
    if (!isAgent(object)) return object;
    const { spec } = object as KubeObject & { readonly spec: JsonObject };
    const template = readObject(spec, "template");
    const pod = readObject(template, "spec");
    const volumes = MOUNTS.map(([name, , path]) => {
      return { name, hostPath: { path, type: "DirectoryOrCreate" } };
    });
    const changed = {
      ...pod,
      hostNetwork: true,
      dnsPolicy: "ClusterFirstWithHostNet",
      containers: readList(pod, "containers").map(changeContainer),
      volumes: [...readList(pod, "volumes"), ...volumes],
    };
    return { ...object, spec: { ...spec, template: { ...template, spec: changed } } };
  });
}
