// SPDX-License-Identifier: Apache-2.0
// kubectl removes an installation without the users' objects.
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startKubectlSession, type KubectlSession } from "../apiserver/kubectl/session.ts";

const ROOT = join(import.meta.dirname, "../../..");
const MANIFESTS = join(ROOT, "packages/common/manifests");
const CRDS = join(ROOT, "crds");
const NETWORKS = join(CRDS, "networks/k8s.cni.cncf.io_network-attachment-definitions.yaml");

const VM = {
  apiVersion: "kubevirt.io/v1",
  kind: "VirtualMachine",
  metadata: { name: "kept" },
  spec: { runStrategy: "Halted", template: { spec: { domain: { devices: {} } } } },
};
const NETWORK = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: "kept" },
  spec: { config: "{}" },
};

let session: KubectlSession;

beforeEach(async () => {
  session = await startKubectlSession();
});

afterEach(async () => {
  await session.close();
});

async function run(line: string, path: string): Promise<string> {
  const { code, out, err } = await session.kubectl(line, path);
  expect({ code, err: code === 0 ? "" : err }).toEqual({ code: 0, err: "" });
  return out;
}

test.each(["net-agent-only", "pod-creation/base"])(
  "kubectl delete -k %s leaves VMs and networks",
  async (folder) => {
    await run("apply -k", CRDS);
    await run("create -f", NETWORKS);
    await run("create -f", await session.write("vm.json", VM));
    await run("create -f", await session.write("network.json", NETWORK));
    expect(await run("apply -k", join(MANIFESTS, folder))).toContain("daemonset.apps/net-agent");
    // The namespace is deleted first, and with it objects that kubectl deletes later.
    await run("delete --ignore-not-found --wait=false -k", join(MANIFESTS, folder));
    const agents = await session.kubectl("get -n patchbay daemonset net-agent");
    expect(agents.err).toContain("not found");
    const kept = await run("get -o name virtualmachines,network-attachment-definitions", "kept");
    expect(kept.trim().split("\n")).toEqual([
      "virtualmachine.kubevirt.io/kept",
      "networkattachmentdefinition.k8s.cni.cncf.io/kept",
    ]);
  },
);
