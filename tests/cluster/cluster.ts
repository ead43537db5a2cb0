// SPDX-License-Identifier: Apache-2.0
// The cluster that PATCHBAY_KUBECONFIG names, with Patchbay installed, and a user's actions on it.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import type { IfaceStatus, KubeVirt, VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";

const ROOT = join(import.meta.dirname, "../..");

const NEEDS = `what must be there, as docs/install.md says:
  PATCHBAY_KUBECONFIG    kubeconfig of an administrator of a cluster
  PATCHBAY_GUEST_IMAGE   image of .cache/guest, as the cluster's nodes find it (guest where it is not set)
  PATCHBAY_SIDECAR_SHIM_IMAGE   image of hooks that are programs, likewise (localhost/patchbay/sidecar-shim:dev)
  Patchbay on it         patchbay install, and all its pods ready
  the CNI plugin ptp     on each node, with host-local`;

/** An administrator's kubeconfig. hack/test skips and counts these tests without a cluster. */
function kubeconfig(): string {
  const path = process.env["PATCHBAY_KUBECONFIG"] ?? "";
  if (path === "") throw new Error(`no cluster is named; ${NEEDS}`);
  return path;
}

/** Workloads that must be ready before a VM can start. */
const WORKLOADS = [
  "deployment/virt-api",
  "deployment/virt-controller",
  "daemonset/virt-handler",
  "daemonset/net-agent",
];

/**
 * A network that leaves nothing on the node, unlike a bridge: the plugin creates a veth pair for each NIC. An administrator's,
 * because ptp gives the node routes.
 */
function networkManifest(name: string): unknown {
  const ipam = { type: "host-local", subnet: "10.79.1.0/24" };
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "0.4.0", name, type: "ptp", ipam }) },
  };
}

/** The test guest's image with kernel and initrd, pullable by the cluster's nodes. Source: hack/guest/make-image. */
const GUEST_IMAGE = process.env["PATCHBAY_GUEST_IMAGE"] ?? "guest";

/** Time for a change under software emulation, and for a boot including image pulls. */
export const CHANGE_MS = 60_000;
export const BOOT_MS = 300_000;

/** The guest's console in its launcher. Source: packages/control-plane/api/src/names.ts */
const CONSOLE_LOG = "/run/launcher/serial0.log";

/** The manifest as text, in this namespace unless it names one. */
function inNamespace(manifest: unknown, namespace: string): string {
  const text = JSON.stringify(manifest);
  const named = text.replaceAll('"namespace":"default"', `"namespace":"${namespace}"`);
  return named.replaceAll('"image":"guest"', `"image":"${GUEST_IMAGE}"`);
}

/** A namespace on the cluster with a network and a VM; deleted at the end with its content. */
export class Room {
  readonly namespace = `patchbay-test-${randomBytes(3).toString("hex")}`;
  readonly network = `default/${this.namespace}`;

  #run(program: string, args: readonly string[], input?: string): string {
    return execFileSync(program, ["--kubeconfig", kubeconfig(), ...args], {
      encoding: "utf8",
      timeout: BOOT_MS,
      ...(input === undefined ? {} : { input }),
    });
  }

  kubectl(...args: readonly string[]): string {
    return this.#run("kubectl", ["--namespace", this.namespace, ...args]);
  }

  patchbay(...args: readonly string[]): string {
    const program = join(ROOT, "packages/cli/bin/patchbay");
    return this.#run(program, ["--namespace", this.namespace, ...args]);
  }

  /** Throws with the requirement if one of Patchbay's workloads is not ready. */
  #expectInstalled(): void {
    for (const workload of WORKLOADS) {
      const status = ["rollout", "status", workload, "--timeout=120s"];
      try {
        this.#run("kubectl", ["--namespace", "patchbay", ...status]);
      } catch (error) {
        throw new Error(`${workload} is not ready; ${NEEDS}`, { cause: error });
      }
    }
  }

  /** Creates the namespace, a network, and these objects. */
  open(...manifests: readonly unknown[]): void {
    this.#expectInstalled();
    this.#run("kubectl", ["create", "namespace", this.namespace]);
    const network = JSON.stringify(networkManifest(this.namespace));
    this.#run("kubectl", ["--namespace", "default", "apply", "--filename", "-"], network);
    for (const manifest of manifests) {
      const text = inNamespace(manifest, this.namespace);
      // Without the flag, kubectl uses the kubeconfig's namespace. With it, kubectl rejects another one.
      this.#run("kubectl", ["--namespace", this.namespace, "apply", "--filename", "-"], text);
    }
  }

  close(): void {
    this.kubectl("delete", "vm,vmi", "--all", "--wait=true", "--timeout=120s");
    this.#run("kubectl", ["delete", "namespace", this.namespace, "--timeout=120s"]);
    const kind = "network-attachment-definitions";
    this.#run("kubectl", ["--namespace", "default", "delete", kind, this.namespace]);
  }

  /** Enables a feature gate; returns a function that restores the previous state. */
  allow(gate: string): () => void {
    const object = ["--namespace", "patchbay", "kubevirt/kubevirt"];
    const text = this.#run("kubectl", ["get", ...object, "-o", "json"]);
    const { spec } = JSON.parse(text) as KubeVirt;
    const { featureGates = [] } = spec?.configuration?.developerConfiguration ?? {};
    const set = (gates: readonly string[]): void => {
      const configuration = { developerConfiguration: { featureGates: gates } };
      const patch = JSON.stringify({ spec: { configuration } });
      this.#run("kubectl", ["patch", ...object, "--type", "merge", "--patch", patch]);
    };
    set([...featureGates, gate]);
    return () => {
      set(featureGates);
    };
  }

  /** The output of a program in the launcher's container. */
  inLauncher(vmi: string, ...argv: readonly string[]): string {
    const { name } = this.launcher(vmi).metadata;
    return this.kubectl("exec", name, "--container", "compute", "--", ...argv);
  }

  vmi(name: string): VirtualMachineInstance {
    return JSON.parse(this.kubectl("get", "vmi", name, "-o", "json")) as VirtualMachineInstance;
  }

  iface(vmi: string, name: string): IfaceStatus | undefined {
    return this.vmi(vmi).status?.interfaces?.find((entry) => entry.name === name);
  }

  launcher(vmi: string): Pod {
    const selector = `kubevirt.io/created-by=${this.vmi(vmi).metadata.uid ?? ""}`;
    const text = this.kubectl("get", "pods", "--selector", selector, "-o", "json");
    const [pod] = (JSON.parse(text) as { readonly items: readonly Pod[] }).items;
    if (pod === undefined) throw new Error(`${vmi} has no launcher`);
    return pod;
  }

  /** The guest's console output so far. */
  console(vmi: string): string {
    return this.inLauncher(vmi, "cat", CONSOLE_LOG);
  }

  /** Waits for a line of the guest after the first `since` characters. */
  async printed(vmi: string, pattern: RegExp, since = 0): Promise<string> {
    return eventually(() => pattern.exec(this.console(vmi).slice(since))?.[0], {
      withinMs: CHANGE_MS,
    });
  }

  async booted(vmi: string): Promise<void> {
    await eventually(() => this.console(vmi).includes("guest ready"), { withinMs: BOOT_MS });
  }
}
