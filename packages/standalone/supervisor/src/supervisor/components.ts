// SPDX-License-Identifier: Apache-2.0
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  FRONT_PROXY_CLIENT,
  HANDLER_CLIENT,
  HANDLER_SERVER,
  buildKubeconfigPath,
  KUBELET_CLIENT,
  NODE_SERVER,
  WEBHOOK_CLIENT,
} from "../data-dir/certificates.ts";
import type { Clock } from "@patchbay/base";
import type { Files, ProcessRunner } from "@patchbay/core/interfaces";
import { buildApiServerCommand } from "../config.ts";
import { buildCgroupRoot, containerdProgram, buildCriEndpoint } from "../runtime/own-containerd.ts";
import { findDnsAddress, findGatewayAddress } from "@patchbay/service-net/host";
import type { ComponentProgram } from "./component.ts";
import { buildHealthSocketPath, type Paths } from "../data-dir/paths.ts";
import type { Settings } from "../settings/settings.ts";

const API_SERVER = "apiserver";

/** Returns the path of a package's executable. `folder` is for example `control-plane/virt-api`. */
function findExecutable(folder: string): string {
  const path = `../../../../${folder}/bin/${basename(folder)}`;
  return fileURLToPath(new URL(path, import.meta.url));
}

export interface Programs {
  readonly containerd: ComponentProgram;
  readonly apiServer: ComponentProgram;
  readonly nodeRuntime: ComponentProgram;
  readonly serviceNet: ComponentProgram;
  readonly virtApi: ComponentProgram;
  readonly netAgent: ComponentProgram;
  readonly virtHandler: ComponentProgram;
  readonly virtController: ComponentProgram;
}

export interface ProgramDeps {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly clock: Clock;
  readonly paths: Paths;
}

function buildService(paths: Paths, folder: string, args: readonly string[]): ComponentProgram {
  const name = basename(folder);
  const healthSocket = buildHealthSocketPath(paths, name);
  const commonFlags = [
    "--kubeconfig",
    buildKubeconfigPath(paths, name),
    "--health-socket",
    healthSocket,
  ];
  return { name, argv: [findExecutable(folder), ...commonFlags, ...args], healthSocket };
}

function buildPodApiServerFlags({ apiAddress, apiPort }: Settings): readonly string[] {
  if (apiAddress === undefined) return [];
  const host = apiAddress.includes(":") ? `[${apiAddress}]` : apiAddress;
  return ["--pod-api-server", `${host}:${String(apiPort)}`];
}

/** Returns the flag with the group of the socket directories. node-runtime and virt-handler must receive the same group. */
function buildDataplaneFlags({ dataplaneGroup = 0 }: Settings): readonly string[] {
  return ["--dataplane-group", String(dataplaneGroup)];
}

function buildNodeRuntimeFlags(paths: Paths, settings: Settings): readonly string[] {
  const pkiPath = (file: string): string => join(paths.pki, file);
  return [
    "--node-name",
    settings.nodeName,
    "--pods-dir",
    paths.pods,
    "--log-dir",
    paths.podLogs,
    "--cri-endpoint",
    buildCriEndpoint(paths),
    "--containerd-dir",
    paths.containerd,
    "--claims-dir",
    paths.claims,
    "--state-dir",
    paths.nodeRuntime,
    "--cgroup-parent",
    buildCgroupRoot(paths),
    "--cni-conf-dir",
    paths.cniConf,
    "--binder-kubeconfig",
    buildKubeconfigPath(paths, "binder"),
    "--tls-cert-file",
    pkiPath(`${NODE_SERVER}.crt`),
    "--tls-private-key-file",
    pkiPath(`${NODE_SERVER}.key`),
    "--client-ca-file",
    pkiPath("ca.crt"),
    "--client-name",
    KUBELET_CLIENT,
    "--cluster-dns",
    findDnsAddress(settings.serviceSubnet),
    ...buildDataplaneFlags(settings),
    ...buildPodApiServerFlags(settings),
  ];
}

/** Changes of a user's VMs. Two cores make about two plugs per second, so a user has a quarter of that. */
const CHANGES_PER_SECOND = 0.5;

function buildVirtApiFlags(paths: Paths, settings: Settings): readonly string[] {
  const pkiPath = (file: string): string => join(paths.pki, file);
  return [
    "--listen-address",
    "127.0.0.1",
    "--port",
    String(settings.virtApiPort),
    "--tls-cert-file",
    pkiPath("virt-api.crt"),
    "--tls-private-key-file",
    pkiPath("virt-api.key"),
    "--requestheader-client-ca-file",
    pkiPath("front-proxy-ca.crt"),
    "--requestheader-allowed-names",
    FRONT_PROXY_CLIENT,
    "--webhook-client-ca-file",
    pkiPath("front-proxy-ca.crt"),
    "--webhook-allowed-names",
    WEBHOOK_CLIENT,
    "--virt-handler-address",
    `127.0.0.1:${String(settings.virtHandlerPort)}`,
    "--virt-handler-ca-file",
    pkiPath("ca.crt"),
    "--virt-handler-client-cert-file",
    pkiPath(`${HANDLER_CLIENT}.crt`),
    "--virt-handler-client-key-file",
    pkiPath(`${HANDLER_CLIENT}.key`),
    "--changes-per-second",
    String(CHANGES_PER_SECOND),
  ];
}

export function buildPrograms(deps: ProgramDeps, settings: Settings): Programs {
  const { paths } = deps;
  const agentFlags = ["--node-name", settings.nodeName, "--cri-endpoint", buildCriEndpoint(paths)];
  const pkiPath = (file: string): string => join(paths.pki, file);
  return {
    apiServer: {
      name: API_SERVER,
      argv: buildApiServerCommand(paths.dataDir, settings.apiServerCommand),
      healthSocket: buildHealthSocketPath(paths, API_SERVER),
    },
    containerd: containerdProgram(deps),
    nodeRuntime: buildService(
      paths,
      "standalone/node-runtime",
      buildNodeRuntimeFlags(paths, settings),
    ),
    serviceNet: {
      ...buildService(paths, "standalone/service-net", [
        "--service-subnet",
        settings.serviceSubnet,
        "--pod-subnet",
        settings.podSubnet,
        "--bridge",
        settings.bridge,
        "--limited-ports",
        [settings.apiPort, settings.virtApiPort, settings.virtHandlerPort].join(","),
      ]),
      niceness: 0,
    },
    virtApi: buildService(paths, "control-plane/virt-api", buildVirtApiFlags(paths, settings)),
    netAgent: buildService(paths, "control-plane/net-agent", [
      ...agentFlags,
      "--state-dir",
      paths.netAgent,
      // In mode `alone`, net-agent ignores pods of other runtimes on the host.
      "--mode",
      "alone",
      // node-runtime has no device plugins, so net-agent need not query the devices of pods.
      "--pod-resources-socket",
      "none",
      // NetworkAttachmentDefinitions of tenants may not use this bridge, which connects the pods' default network.
      "--own-bridge",
      settings.bridge,
      "--cluster-networks",
      `${settings.podSubnet},${settings.serviceSubnet}`,
      // containerd calls net-agent only for pods that name their own default network.
      "--cni-socket",
      paths.cniSocket,
      "--default-network",
      "none",
    ]),
    virtHandler: buildService(paths, "control-plane/virt-handler", [
      ...agentFlags,
      "--pods-dir",
      paths.pods,
      "--state-dir",
      paths.virtHandler,
      ...buildDataplaneFlags(settings),
      // virt-handler applies policies, because the CNI plugins do not. Services are exempt, because service-net filters their connections.
      "--network-policies",
      "--multi-network-policies",
      "--policy-exempt",
      `${findGatewayAddress(settings.podSubnet)},${settings.serviceSubnet}`,
      "--listen-address",
      "127.0.0.1",
      "--port",
      String(settings.virtHandlerPort),
      "--tls-cert-file",
      pkiPath(`${HANDLER_SERVER}.crt`),
      "--tls-private-key-file",
      pkiPath(`${HANDLER_SERVER}.key`),
      "--client-ca-file",
      pkiPath("ca.crt"),
      "--relay-certificates",
      paths.relayPki,
    ]),
    virtController: buildService(paths, "control-plane/virt-controller", [
      // containerd cannot pass a guest's MAC to CNI plugins, but this network's bridge passes frames from any MAC.
      "--pod-network-passes-any-mac",
    ]),
  };
}
