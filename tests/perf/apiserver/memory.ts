// SPDX-License-Identifier: Apache-2.0
// The API server's memory and start time with many VMs.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { load } from "./load.ts";
import { ServerProcess } from "./process.ts";

const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const VMIS = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances";
const PODS = "/api/v1/namespaces/default/pods";
const CRDS = join(import.meta.dirname, "../../../crds");

/** Cost of a number of VMs. MB are 10^6 bytes. */
export interface Footprint {
  readonly vms: number;
  readonly emptyMb: number;
  readonly filledMb: number;
  readonly restartedMb: number;
  /** Start with the objects, until `ready`. */
  readonly readyMs: number;
  /** Resident memory per object, bytes; 0 if too small to measure. */
  readonly bytesPerObject: number;
}

/** A VMI with two NICs and its status, about 2 KB. */
function vmi(name: string): unknown {
  const nic = (nic: string) => ({
    name: nic,
    bridge: {},
    macAddress: "02:00:00:00:00:01",
    model: "virtio",
  });
  const status = (nic: string) => ({
    name: nic,
    mac: "02:00:00:00:00:01",
    interfaceName: nic,
    podInterfaceName: `pod${nic}`,
    ipAddresses: ["10.77.0.12", "fe80::1"],
    infoSource: "domain, guest-agent",
    pciAddress: "0000:02:00.0",
    queueCount: 1,
  });
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { name, labels: { app: name }, finalizers: ["foregroundDeleteVirtualMachine"] },
    spec: {
      domain: {
        memory: { guest: "128Mi" },
        firmware: { kernelBoot: { container: { image: "guest", initrdPath: "initrd" } } },
        devices: { interfaces: [nic("blue"), nic("green")] },
      },
      networks: ["blue", "green"].map((network) => ({
        name: network,
        multus: { networkName: network },
      })),
    },
    status: {
      phase: "Running",
      nodeName: "node-1",
      interfaces: [status("blue"), status("green")],
      conditions: ["Ready", "LiveMigratable", "AgentConnected"].map((type) => ({
        type,
        status: "True",
        lastTransitionTime: "2026-11-21T10:00:00Z",
        reason: "AsExpected",
        message: "as it should be",
      })),
    },
  };
}

/** A launcher pod of the VMI with that uid, with what CNI reported, about 3 KB. */
function pod(name: string, uid: string): unknown {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `virt-launcher-${name}`,
      ownerReferences: [
        {
          apiVersion: "kubevirt.io/v1",
          kind: "VirtualMachineInstance",
          name,
          uid,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      labels: { "kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": name },
      annotations: {
        "k8s.v1.cni.cncf.io/networks": JSON.stringify(
          ["blue", "green"].map((network) => ({
            name: network,
            namespace: "default",
            interface: `pod${network}`,
            mac: "02:00:00:00:00:01",
          })),
        ),
        "k8s.v1.cni.cncf.io/network-status": JSON.stringify(
          ["", "blue", "green"].map((network) => ({
            name: `default/${network}`,
            interface: `pod${network}`,
            ips: ["10.77.0.12"],
            mac: "02:00:00:00:00:01",
            dns: {},
          })),
        ),
      },
    },
    spec: {
      nodeName: "node-1",
      restartPolicy: "Never",
      securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107, runAsNonRoot: true },
      containers: [
        {
          name: "compute",
          image: "launcher",
          command: ["/usr/bin/virt-launcher", "--name", name],
          resources: { requests: { memory: "256Mi" }, limits: { "devices.kubevirt.io/kvm": "1" } },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
          volumeMounts: [{ name: "launcher", mountPath: "/var/run/launcher" }],
        },
      ],
      volumes: [{ name: "launcher", emptyDir: {} }],
    },
    status: { phase: "Pending" },
  };
}

async function fill(server: ServerProcess, vms: number): Promise<void> {
  const files = readdirSync(CRDS).filter((name) => name.includes("kubevirt.io_"));
  for (const file of files) {
    await server.ask("POST", DEFINITIONS, parse(readFileSync(join(CRDS, file), "utf8")));
  }
  await load(vms, 16, async (index) => {
    const name = `vm-${String(index)}`;
    const made = JSON.parse(await server.ask("POST", VMIS, vmi(name))) as {
      readonly metadata: { readonly uid: string };
    };
    await server.ask("POST", PODS, pod(name, made.metadata.uid));
  });
}

/** Fills a new server with VMIs and their pods, and restarts it. */
export async function measureFootprint(dataDir: string, vms: number): Promise<Footprint> {
  const first = await ServerProcess.start(dataDir);
  const emptyMb = first.rssMb();
  await fill(first, vms);
  const filledMb = first.rssMb();
  await first.stop();
  const second = await ServerProcess.start(dataDir);
  // Every client lists first.
  await second.ask("GET", `${VMIS}?limit=1`);
  const restartedMb = second.rssMb();
  const { readyMs } = second;
  await second.stop();
  const bytesPerObject = Math.max(0, ((restartedMb - emptyMb) * 1e6) / (2 * vms));
  return { vms, emptyMb, filledMb, restartedMb, readyMs, bytesPerObject };
}
