// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { buildLayout } from "./layout.ts";
import { buildBaseSpecText, PIDS_MAX, printConfig } from "./containerd-config.ts";

const places = { directory: "/d/c", runDirectory: "/d/run", cniConfDirectory: "/d/net.d" };

describe("the layout", () => {
  test("is below the two directories", () => {
    expect(buildLayout(places)).toMatchObject({
      config: "/d/c/config.toml",
      runcRoot: "/d/c/state/runc",
      socket: "/d/run/containerd.sock",
    });
  });

  test("rejects a directory whose socket paths are too long", () => {
    // 86 bytes, `/containerd.sock` and `.ttrpc` are 108.
    const runDirectory = `/${"d".repeat(85)}`;
    expect(() => buildLayout({ ...places, runDirectory })).toThrow("1 bytes too long");
    expect(buildLayout({ ...places, runDirectory: `/${"d".repeat(84)}` }).socket).toHaveLength(101);
  });
});

describe("the configuration", () => {
  const text = printConfig(buildLayout(places), {
    snapshotter: "native",
    sandboxImage: 'localhost/"pause":dev',
    hasOwnNetworks: false,
  });
  test("has one section for each configured plugin", () => {
    expect(text.split("\n")).toEqual([
      "version = 2",
      'root = "/d/c/root"',
      'state = "/d/c/state"',
      "oom_score = 0",
      'disabled_plugins = ["io.containerd.snapshotter.v1.aufs","io.containerd.snapshotter.v1.btrfs","io.containerd.snapshotter.v1.devmapper","io.containerd.snapshotter.v1.zfs","io.containerd.nri.v1.nri"]',
      "",
      "[grpc]",
      'address = "/d/run/containerd.sock"',
      "",
      "[debug]",
      'level = "info"',
      'format = "json"',
      "",
      '[plugins."io.containerd.internal.v1.opt"]',
      'path = "/d/c/opt"',
      "",
      '[plugins."io.containerd.grpc.v1.cri"]',
      'sandbox_image = "localhost/\\"pause\\":dev"',
      "restrict_oom_score_adj = true",
      "device_ownership_from_security_context = true",
      "netns_mounts_under_state_dir = true",
      'stream_server_address = "127.0.0.1"',
      'stream_server_port = "0"',
      'stream_idle_timeout = "0s"',
      "",
      '[plugins."io.containerd.grpc.v1.cri".cni]',
      'bin_dir = "/usr/lib/cni"',
      'conf_dir = "/d/net.d"',
      "",
      '[plugins."io.containerd.grpc.v1.cri".registry]',
      'config_path = "/d/c/registries"',
      "",
      '[plugins."io.containerd.grpc.v1.cri".containerd]',
      'snapshotter = "native"',
      'default_runtime_name = "runc"',
      "disable_snapshot_annotations = false",
      "",
      '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]',
      'runtime_type = "io.containerd.runc.v2"',
      'base_runtime_spec = "/d/c/base-spec.json"',
      "",
      '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]',
      'Root = "/d/c/state/runc"',
      "",
    ]);
  });

  test("has a second runtime with its own CNI configuration for pods' own default networks", () => {
    const settings = {
      snapshotter: "native",
      sandboxImage: "pause",
      hasOwnNetworks: true,
    } as const;
    const lines = printConfig(buildLayout(places), settings).split("\n");
    expect(lines).toContain('bin_dir = "/d/c/cni-plugins"');
    expect(lines.slice(-8)).toEqual([
      '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."own-network"]',
      'runtime_type = "io.containerd.runc.v2"',
      'base_runtime_spec = "/d/c/base-spec.json"',
      'cni_conf_dir = "/d/c/own-network"',
      "",
      '[plugins."io.containerd.grpc.v1.cri".containerd.runtimes."own-network".options]',
      'Root = "/d/c/state/runc"',
      "",
    ]);
  });

  test("contains no outside paths except the plugins and the stream address", () => {
    const paths = text.match(/"\/[^"]*"/g) ?? [];
    expect(paths.filter((path) => !path.startsWith('"/d/'))).toEqual(['"/usr/lib/cni"']);
  });
});

describe("the base specification", () => {
  const printed = JSON.stringify({
    process: { cwd: "/", rlimits: [{ type: "RLIMIT_NOFILE", hard: 1024, soft: 1024 }] },
    linux: { resources: { devices: [{ allow: false }] }, namespaces: [{ type: "pid" }] },
  });

  test("has a limit of processes beside what was there, and none of open files", () => {
    expect(JSON.parse(buildBaseSpecText(printed))).toEqual({
      process: { cwd: "/" },
      linux: {
        resources: { devices: [{ allow: false }], pids: { limit: PIDS_MAX } },
        namespaces: [{ type: "pid" }],
      },
    });
  });

  test.each(["", "[]", "{}"])("is refused when it is %j", (text) => {
    expect(() => buildBaseSpecText(text)).toThrow("not an OCI specification");
  });
});
