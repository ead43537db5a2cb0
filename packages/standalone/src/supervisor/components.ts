// SPDX-License-Identifier: Apache-2.0
// Which processes make up a standalone machine, and with which arguments.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { FRONT_PROXY_CLIENT, kubeconfigOf, WEBHOOK_CLIENT } from "../data-dir/certificates.ts";
import type { ComponentProgram } from "./component.ts";
import type { Paths } from "../data-dir/paths.ts";
import type { Settings } from "../settings/settings.ts";

/** The executable of a package of this project. */
function executableOf(name: string): string {
  return fileURLToPath(new URL(`../../../${name}/bin/${name}`, import.meta.url));
}

/** The components, by name. */
export interface Programs {
  readonly apiServer: ComponentProgram;
  readonly nodeRuntime: ComponentProgram;
  readonly virtApi: ComponentProgram;
  readonly netAgent: ComponentProgram;
  readonly virtHandler: ComponentProgram;
  readonly virtController: ComponentProgram;
}

function serviceOf(paths: Paths, name: string, args: readonly string[]): ComponentProgram {
  const kubeconfig = kubeconfigOf(paths, name);
  return { name, argv: [executableOf(name), "--kubeconfig", kubeconfig, ...args] };
}

/** Composes the command lines; `apiServer` is that of the API server, which is this package's own. */
export function programsOf(
  paths: Paths,
  settings: Settings,
  apiServer: readonly [string, ...string[]],
): Programs {
  const node = ["--node-name", settings.nodeName, "--pods-dir", paths.pods];
  const pki = (file: string): string => join(paths.pki, file);
  return {
    apiServer: { name: "apiserver", argv: apiServer },
    nodeRuntime: serviceOf(paths, "node-runtime", [
      ...node,
      "--images-dir",
      paths.images,
      "--state-dir",
      paths.nodeRuntime,
      "--cni-conf-dir",
      paths.cniConf,
      "--binder-kubeconfig",
      kubeconfigOf(paths, "binder"),
    ]),
    virtApi: serviceOf(paths, "virt-api", [
      "--listen-address",
      "127.0.0.1",
      "--port",
      String(settings.virtApiPort),
      "--tls-cert-file",
      pki("virt-api.crt"),
      "--tls-private-key-file",
      pki("virt-api.key"),
      "--requestheader-client-ca-file",
      pki("front-proxy-ca.crt"),
      "--requestheader-allowed-names",
      FRONT_PROXY_CLIENT,
      "--webhook-client-ca-file",
      pki("front-proxy-ca.crt"),
      "--webhook-allowed-names",
      WEBHOOK_CLIENT,
    ]),
    netAgent: serviceOf(paths, "net-agent", [...node, "--state-dir", paths.netAgent]),
    virtHandler: serviceOf(paths, "virt-handler", node),
    virtController: serviceOf(paths, "virt-controller", []),
  };
}
