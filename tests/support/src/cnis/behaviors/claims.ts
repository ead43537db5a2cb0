// SPDX-License-Identifier: Apache-2.0
// Assigns addresses to IPAMClaims, and retains them until the claims are deleted. It acts as the network's controller too. Source:
// OVN-Kubernetes, go-controller/pkg/persistentips, and "Persistent IPs" of multi-homing.
// Members of the configuration: `pool` is host-local's, `kubectl` and `kubeconfig` are paths.
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { run, spawnPlugin, textOf, type Behavior, type Call, type Result } from "../call.ts";

interface Claim {
  readonly metadata: { readonly name: string; readonly uid: string };
  readonly spec: { readonly ipRequests?: readonly string[] };
  readonly status?: { readonly ips?: readonly string[] };
}

const CLAIMS = "/apis/k8s.cni.cncf.io/v1alpha1";

function argument({ args }: Call, name: string): string {
  return new RegExp(`(?:^|;)${name}=([^;]+)`).exec(args["CNI_ARGS"] ?? "")?.[1] ?? "";
}

function kubectl(call: Call, words: readonly string[], input = ""): string {
  const kubeconfig = `--kubeconfig=${textOf(call, "kubeconfig")}`;
  return run(textOf(call, "kubectl"), [kubeconfig, ...words], input);
}

function read(call: Call, path: string): unknown {
  return JSON.parse(kubectl(call, ["get", "--raw", path]));
}

/** Name of the claim that the pod's annotation references for this NIC. */
function claimNameOf(call: Call): string {
  const pod = `/api/v1/namespaces/${argument(call, "K8S_POD_NAMESPACE")}/pods/${argument(call, "K8S_POD_NAME")}`;
  const { metadata } = read(call, pod) as { metadata: { annotations: Record<string, string> } };
  const elements = JSON.parse(metadata.annotations["k8s.v1.cni.cncf.io/networks"] ?? "[]") as {
    readonly interface: string;
    readonly "ipam-claim-reference"?: string;
  }[];
  const element = elements.find((each) => each.interface === call.args["CNI_IFNAME"]);
  const name = element?.["ipam-claim-reference"];
  if (name === undefined) throw new Error("the pod references no IPAMClaim");
  return name;
}

function poolOf({ config }: Call): Readonly<Record<string, unknown>> {
  return config["pool"] as Readonly<Record<string, unknown>>;
}

/** Frees the addresses of deleted claims. host-local stores the claim's uid in the file of its address. */
function freeDeleted(call: Call, claims: readonly Claim[]): void {
  const directory = join(String(poolOf(call)["dataDir"]), textOf(call, "name"));
  for (const file of readdirSync(directory).filter((name) => /^\d+\./.test(name))) {
    const path = join(directory, file);
    const text = readFileSync(path, "utf8");
    if (!claims.some(({ metadata }) => text.startsWith(metadata.uid))) rmSync(path);
  }
}

/** Leases the address that the claim requests, or the next one. If it is not free, ends with host-local's error. */
function lease(call: Call, { metadata, spec: { ipRequests = [] } }: Claim): string {
  const args = { ...call.args, CNI_CONTAINERID: metadata.uid, CNI_IFNAME: "claim" };
  const ipam = { type: "host-local", ...poolOf(call) };
  const ips = ipRequests.map((request) => request.replace(/\/.*/, ""));
  const config = { ...call.config, ipam, args: { cni: { ips } } };
  const { status, stdout } = spawnPlugin("host-local", { args, config });
  if (status !== 0) {
    process.stdout.write(stdout);
    process.exit(1);
  }
  const { ips: leased = [] } = JSON.parse(stdout) as Result;
  return leased[0]?.address ?? "";
}

function assign(call: Call): Call {
  const claimName = claimNameOf(call);
  const path = `${CLAIMS}/namespaces/${argument(call, "K8S_POD_NAMESPACE")}/ipamclaims`;
  const { items } = read(call, path) as { readonly items: readonly Claim[] };
  const claim = items.find(({ metadata }) => metadata.name === claimName);
  if (claim === undefined) throw new Error(`IPAMClaim ${claimName} does not exist`);
  let [address] = claim.status?.ips ?? [];
  if (address === undefined) {
    freeDeleted(call, items);
    address = lease(call, claim);
  }
  const status = { ips: [address], ownerPod: argument(call, "K8S_POD_NAME") };
  const body = JSON.stringify({ ...claim, status });
  kubectl(call, ["replace", "--raw", `${path}/${claimName}/status`, "-f", "-"], body);
  const ipam = { type: "static", addresses: [{ address, gateway: textOf(call, "gateway") }] };
  return { args: call.args, config: { ...call.config, ipam } };
}

export const CLAIMS_ADDRESSES: Behavior = { prepare: assign };
