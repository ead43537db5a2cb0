// SPDX-License-Identifier: Apache-2.0
// Builds containerd's configuration and base specification. Source: containerd, CRI plugin's configuration, version 2.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { AppError } from "@patchbay/base";
import type { ContainerdLayout } from "./layout.ts";

/** Maximum number of processes per container, so that a fork bomb cannot block the host. QEMU and libvirt need fewer than 200. */
export const PIDS_MAX = 1024;

function readObject(object: JsonObject, name: string): JsonObject {
  const value = object[name];
  return isJsonObject(value) ? value : {};
}

/**
 * Adds a process limit to ctr's default specification, because CRI cannot set one. Removes that specification's limit of 1024 open files.
 * @throws AppError with CONTAINERD_FAILED when `printed` is not a specification
 */
export function buildBaseSpecText(printed: string, pidsMax: number = PIDS_MAX): string {
  const spec = parseJson(printed);
  if (!isJsonObject(spec) || !isJsonObject(spec["process"])) {
    throw new AppError("CONTAINERD_FAILED", {
      call: "oci spec",
      reason: "the output is not an OCI specification",
    });
  }
  const process = Object.fromEntries(
    Object.entries(spec["process"]).filter(([name]) => name !== "rlimits"),
  );
  const linux = readObject(spec, "linux");
  const resources = { ...readObject(linux, "resources"), pids: { limit: pidsMax } };
  return `${JSON.stringify({ ...spec, process, linux: { ...linux, resources } }, undefined, 2)}\n`;
}

/** Snapshotter of containerd: `native` copies all files of a layer, `overlayfs` mounts layers. */
export type Snapshotter = "overlayfs" | "native";

interface ContainerdSettings {
  readonly snapshotter: Snapshotter;
  readonly sandboxImage: string;
  /** Whether to configure the runtime handler {@link OWN_NETWORK_RUNTIME}. */
  readonly hasOwnNetworks: boolean;
}

/** Directory of the CNI plugins. Source: Debian package containernetworking-plugins. */
export const CNI_PLUGINS = "/usr/lib/cni";

/** Runtime handler for pods that name their own default network. The handler uses runc with another CNI configuration. */
export const OWN_NETWORK_RUNTIME = "own-network";

/** Plugins to disable: snapshotters that log errors at each start, and NRI, whose default socket belongs to the host's containerd. */
const DISABLED_PLUGINS = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.nri.v1.nri",
];

type Value = string | number | boolean | readonly string[];
type Section = readonly [path: readonly string[], values: Readonly<Record<string, Value>>];

const CRI_PATH = ["plugins", "io.containerd.grpc.v1.cri"];
const RUNTIMES_PATH = [...CRI_PATH, "containerd", "runtimes"];

function buildTopValues({ root, state }: ContainerdLayout): Readonly<Record<string, Value>> {
  return { version: 2, root, state, oom_score: 0, disabled_plugins: DISABLED_PLUGINS };
}

function buildCriValues({ sandboxImage }: ContainerdSettings): Readonly<Record<string, Value>> {
  return {
    sandbox_image: sandboxImage,
    // Without this option, no sandbox starts if containerd runs without CAP_SYS_RESOURCE.
    restrict_oom_score_adj: true,
    // Without this option, devices belong to root, and the launchers' user cannot open them.
    device_ownership_from_security_context: true,
    netns_mounts_under_state_dir: true,
    stream_server_address: "127.0.0.1",
    stream_server_port: "0",
    // Disables the timeout of 4 h, which would close exec and port-forward streams on which clients send only pings.
    stream_idle_timeout: "0s",
  };
}

function buildRuntime(
  name: string,
  { baseSpec, runcRoot }: ContainerdLayout,
  values: Section[1] = {},
): readonly Section[] {
  const path = [...RUNTIMES_PATH, name];
  return [
    [path, { runtime_type: "io.containerd.runc.v2", base_runtime_spec: baseSpec, ...values }],
    [[...path, "options"], { Root: runcRoot }],
  ];
}

function buildSections(layout: ContainerdLayout, settings: ContainerdSettings): readonly Section[] {
  const { snapshotter, hasOwnNetworks } = settings;
  const plugins = hasOwnNetworks ? layout.cniPlugins : CNI_PLUGINS;
  return [
    [["grpc"], { address: layout.socket }],
    [["debug"], { level: "info", format: "json" }],
    [["plugins", "io.containerd.internal.v1.opt"], { path: layout.opt }],
    [CRI_PATH, buildCriValues(settings)],
    [[...CRI_PATH, "cni"], { bin_dir: plugins, conf_dir: layout.cniConfDirectory }],
    [[...CRI_PATH, "registry"], { config_path: layout.registryHosts }],
    [
      [...CRI_PATH, "containerd"],
      // Makes containerd record the image in each layer's snapshot. By this record, node-runtime finds a pull that fills the disk.
      { snapshotter, default_runtime_name: "runc", disable_snapshot_annotations: false },
    ],
    ...buildRuntime("runc", layout),
    ...(hasOwnNetworks
      ? buildRuntime(OWN_NETWORK_RUNTIME, layout, { cni_conf_dir: layout.ownNetworkConf })
      : []),
  ];
}

function printValue(value: Value): string {
  return JSON.stringify(value).replaceAll("\u007f", String.raw`\u007f`);
}

function printKey(key: string): string {
  return /^\w+$/.test(key) ? key : printValue(key);
}

function printValues(values: Readonly<Record<string, Value>>): readonly string[] {
  return Object.entries(values).map(([name, value]) => `${name} = ${printValue(value)}`);
}

export function printConfig(layout: ContainerdLayout, settings: ContainerdSettings): string {
  const sections = buildSections(layout, settings).flatMap(([path, values]) => [
    "",
    `[${path.map(printKey).join(".")}]`,
    ...printValues(values),
  ]);
  return [...printValues(buildTopValues(layout)), ...sections, ""].join("\n");
}
