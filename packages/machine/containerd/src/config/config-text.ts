// SPDX-License-Identifier: Apache-2.0
// What is in config.toml? Pure. Source: containerd, configuration of the CRI plugin, version 2, which 1.6 to 2.x read.
import type { ContainerdLayout } from "../layout.ts";

/** How layers become a root file system: copies of all files, or mounts that share them. */
export type Snapshotter = "overlayfs" | "native";

/** What is chosen beside the places. */
export interface ContainerdSettings {
  readonly snapshotter: Snapshotter;
  /** Reference of the image of which every sandbox's first container is. */
  readonly sandboxImage: string;
}

/** Debian's; the other usual place is a cluster's own. Source: Debian, containernetworking-plugins. */
const CNI_PLUGINS = "/usr/lib/cni";

/** They want devices or tools, say so at each start, and are not used; NRI's socket would be the machine's. */
const DISABLED_PLUGINS = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.nri.v1.nri",
];

type Value = string | number | boolean | readonly string[];
type Section = readonly [path: readonly string[], values: Readonly<Record<string, Value>>];

const CRI = ["plugins", "io.containerd.grpc.v1.cri"];
const RUNC = [...CRI, "containerd", "runtimes", "runc"];

function topValues({ root, state }: ContainerdLayout): Readonly<Record<string, Value>> {
  return { version: 2, root, state, oom_score: 0, disabled_plugins: DISABLED_PLUGINS };
}

function criValues({ sandboxImage }: ContainerdSettings): Readonly<Record<string, Value>> {
  return {
    sandbox_image: sandboxImage,
    // Else no sandbox starts where CAP_SYS_RESOURCE is missing.
    restrict_oom_score_adj: true,
    // Else a device stays root's, and the launchers' user cannot open it.
    device_ownership_from_security_context: true,
    netns_mounts_under_state_dir: true,
    stream_server_address: "127.0.0.1",
    stream_server_port: "0",
    // No limit, instead of 4 h, for exec and port-forward: their clients send pings, and may have nothing else to send.
    stream_idle_timeout: "0s",
  };
}

function sectionsOf(layout: ContainerdLayout, settings: ContainerdSettings): readonly Section[] {
  const { snapshotter } = settings;
  return [
    [["grpc"], { address: layout.socket }],
    [["debug"], { level: "info", format: "json" }],
    [["plugins", "io.containerd.internal.v1.opt"], { path: layout.opt }],
    [CRI, criValues(settings)],
    [[...CRI, "cni"], { bin_dir: CNI_PLUGINS, conf_dir: layout.cniConfDirectory }],
    [[...CRI, "registry"], { config_path: layout.registryHosts }],
    [
      [...CRI, "containerd"],
      // Names the image on each layer that is unpacked: who fills the disk, and is to be stopped?
      { snapshotter, default_runtime_name: "runc", disable_snapshot_annotations: false },
    ],
    [RUNC, { runtime_type: "io.containerd.runc.v2", base_runtime_spec: layout.baseSpec }],
    [[...RUNC, "options"], { Root: layout.runcRoot }],
  ];
}

/** JSON's texts, numbers and lists are TOML's too, but for the one character that TOML wants escaped. */
function printValue(value: Value): string {
  return JSON.stringify(value).replaceAll("\u007f", String.raw`\u007f`);
}

function printKey(key: string): string {
  return /^\w+$/.test(key) ? key : printValue(key);
}

function printValues(values: Readonly<Record<string, Value>>): readonly string[] {
  return Object.entries(values).map(([name, value]) => `${name} = ${printValue(value)}`);
}

/** The whole file. */
export function configText(layout: ContainerdLayout, settings: ContainerdSettings): string {
  const sections = sectionsOf(layout, settings).flatMap(([path, values]) => [
    "",
    `[${path.map(printKey).join(".")}]`,
    ...printValues(values),
  ]);
  return [...printValues(topValues(layout)), ...sections, ""].join("\n");
}
