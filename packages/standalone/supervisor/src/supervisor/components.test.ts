// SPDX-License-Identifier: Apache-2.0
// The command lines of a machine's services.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "@patchbay/core/interfaces";
import { createFakeClock, createFakeFiles, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { buildPaths } from "../data-dir/paths.ts";
import type { Settings } from "../settings/settings.ts";
import { buildPrograms } from "./components.ts";

const SETTINGS: Settings = {
  apiPort: 1,
  virtApiPort: 2,
  virtHandlerPort: 3,
  nodeName: "n",
  podSubnet: "10.88.111.0/24",
  serviceSubnet: "10.96.0.0/16",
  bridge: "patchbay0",
};

function programs(settings: Partial<Settings> = {}) {
  const runner = createFakeProcessRunner({ ctr: () => ({}) });
  const files = createFakeFiles();
  const deps = { files, runner, clock: createFakeClock(), paths: buildPaths("/d") };
  return { ...buildPrograms(deps, { ...SETTINGS, ...settings }), runner, files };
}

const CRI = "unix:///d/run/containerd/containerd.sock";

test.each([
  {
    program: "nodeRuntime",
    folder: "standalone/node-runtime",
    flags: [
      "--node-name n --pods-dir /d/pods --log-dir /d/pod-logs",
      `--cri-endpoint ${CRI} --containerd-dir /d/containerd`,
      "--claims-dir /d/claims --state-dir /d/node-runtime",
      "--cgroup-parent /patchbay-4823e769 --cni-conf-dir /d/cni/net.d",
      "--binder-kubeconfig /d/kubeconfigs/binder.kubeconfig",
      "--tls-cert-file /d/pki/node-runtime.crt --tls-private-key-file /d/pki/node-runtime.key",
      "--client-ca-file /d/pki/ca.crt --client-name kube-apiserver-kubelet-client",
      "--cluster-dns 10.96.0.10 --dataplane-group 0",
    ],
  },
  {
    program: "serviceNet",
    folder: "standalone/service-net",
    flags: [
      "--service-subnet 10.96.0.0/16 --pod-subnet 10.88.111.0/24 --bridge patchbay0",
      "--limited-ports 1,2,3",
    ],
  },
  {
    program: "virtApi",
    folder: "control-plane/virt-api",
    flags: [
      "--listen-address 127.0.0.1 --port 2",
      "--tls-cert-file /d/pki/virt-api.crt --tls-private-key-file /d/pki/virt-api.key",
      "--requestheader-client-ca-file /d/pki/front-proxy-ca.crt",
      "--requestheader-allowed-names front-proxy-client",
      "--webhook-client-ca-file /d/pki/front-proxy-ca.crt",
      "--webhook-allowed-names webhook-client",
      "--virt-handler-address 127.0.0.1:3 --virt-handler-ca-file /d/pki/ca.crt",
      "--virt-handler-client-cert-file /d/pki/virt-api-client.crt",
      "--virt-handler-client-key-file /d/pki/virt-api-client.key",
      "--changes-per-second 0.5",
    ],
  },
  {
    program: "netAgent",
    folder: "control-plane/net-agent",
    flags: [
      `--node-name n --cri-endpoint ${CRI} --state-dir /d/net-agent`,
      "--mode alone --pod-resources-socket none --own-bridge patchbay0",
      "--cluster-networks 10.88.111.0/24,10.96.0.0/16",
      "--cni-socket /d/run/cni/net-agent.sock --default-network none",
    ],
  },
  {
    program: "virtHandler",
    folder: "control-plane/virt-handler",
    flags: [
      `--node-name n --cri-endpoint ${CRI} --pods-dir /d/pods --state-dir /d/virt-handler`,
      "--dataplane-group 0 --network-policies --multi-network-policies",
      "--policy-exempt 10.88.111.1,10.96.0.0/16",
      "--listen-address 127.0.0.1 --port 3",
      "--tls-cert-file /d/pki/virt-handler.crt --tls-private-key-file /d/pki/virt-handler.key",
      "--client-ca-file /d/pki/ca.crt --relay-certificates /d/pki/relay",
    ],
  },
  {
    program: "virtController",
    folder: "control-plane/virt-controller",
    flags: ["--pod-network-passes-any-mac"],
  },
] as const)("starts $folder with its flags", ({ program, folder, flags }) => {
  const { name, argv, healthSocket } = programs()[program];
  const [executable, ...words] = argv;
  expect(executable).toMatch(new RegExp(`/packages/${folder}/bin/${name}$`));
  expect(folder.endsWith(`/${name}`)).toBe(true);
  expect(healthSocket).toBe(`/d/run/${name}.sock`);
  expect(words.join(" ")).toBe(
    [
      `--kubeconfig /d/kubeconfigs/${name}.kubeconfig --health-socket ${healthSocket ?? ""}`,
      ...flags,
    ].join(" "),
  );
});

test.each([
  { name: "not at all without a pod address", settings: {}, want: undefined },
  { name: "IPv4", settings: { apiAddress: "192.0.2.1" }, want: "192.0.2.1:1" },
  { name: "IPv6", settings: { apiAddress: "fd00::1" }, want: "[fd00::1]:1" },
])("pods reach the API server: $name", ({ settings, want }) => {
  const { argv } = programs(settings).nodeRuntime;
  const index = argv.indexOf("--pod-api-server");
  expect(index < 0 ? undefined : argv[index + 1]).toBe(want);
});

test("both users of the dataplane group receive the same group", () => {
  const { nodeRuntime, virtHandler } = programs({ dataplaneGroup: 107 });
  for (const { argv } of [nodeRuntime, virtHandler]) {
    expect(argv[argv.indexOf("--dataplane-group") + 1]).toBe("107");
  }
});

test("the API server is a program of this package", () => {
  const { name, argv, healthSocket } = programs().apiServer;
  expect([name, healthSocket]).toEqual(["apiserver", "/d/run/apiserver.sock"]);
  expect(JSON.parse(argv.at(-1) ?? "")).toEqual({ role: "apiserver", dataDir: "/d" });
});

test("malloc has the same settings in the API server as in the other services", () => {
  const settings = programs().apiServer.argv.filter((argument) => argument.startsWith("MALLOC_"));
  const path = join(import.meta.dirname, "../../../../adapters/os/bin/program");
  expect(readFileSync(path, "utf8")).toContain(`\nexport ${settings.join(" ")}\n`);
  expect(settings).toHaveLength(2);
});

test("another command may run the API server, with the same argument", () => {
  const { argv } = programs({ apiServerCommand: ["node", "server.js"] }).apiServer;
  expect(argv).toEqual(["node", "server.js", programs().apiServer.argv.at(-1)]);
});

test("containerd starts without a stale socket, and is ready when its tool responds", async () => {
  const { containerd, runner, files } = programs();
  expect(containerd.argv).toEqual(["containerd", "--config", "/d/containerd/config.toml"]);
  const socket = CRI.replace("unix://", "");
  await files.writeAtomic(socket, "");
  await containerd.beforeStart?.();
  expect(await files.exists(socket)).toBe(false);
  await containerd.untilReady?.(new AbortController().signal);
  expect(runner.commands.map(({ argv }: Command) => argv.slice(0, 3))).toEqual([
    ["ctr", "--address", socket],
  ]);
});
