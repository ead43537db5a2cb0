// SPDX-License-Identifier: Apache-2.0
// Debian from a claim by EFI with secure boot: its data after a restart and after the VM's deletion, and
// systemd-networkd's routes with two default gateways.
import { diskVmManifest, eventually, obedientUserData } from "@patchbay/support";
import { addInterface, CHANGE_MS, expectReady, machine } from "../machine.ts";
import { DEBIAN_IMAGE, debianBooted, debianRestarted, inDebian } from "./debian.ts";
import { SecureShell, type ShellStory } from "./secure-shell.ts";

const NAME = "kept";
const CLAIM = "kept-root";

const OUT = {
  apiVersion: "k8s.cni.cncf.io/v1",
  kind: "NetworkAttachmentDefinition",
  metadata: { name: "out", namespace: "default" },
  spec: {
    config: JSON.stringify({
      cniVersion: "0.4.0",
      name: "pbb-out",
      type: "bridge",
      bridge: "pbb-out",
      isGateway: true,
      ipam: {
        type: "host-local",
        subnet: "10.77.8.0/24",
        routes: [{ dst: "0.0.0.0/0" }],
      },
    }),
  },
};

/** Outlives the VM. */
const ROOT = {
  apiVersion: "cdi.kubevirt.io/v1beta1",
  kind: "DataVolume",
  metadata: { name: CLAIM, namespace: "default" },
  spec: {
    source: { registry: { url: `docker://${DEBIAN_IMAGE}` } },
    storage: { resources: { requests: { storage: "2Gi" } } },
  },
};

/** Results of the guest's own network manager. */
interface Resolving {
  /** Addresses of its NICs on the pod network and on the plugged network. */
  readonly addresses: readonly string[];
  /** NICs whose DHCP server announced a name server or a router, by address. */
  readonly ways: readonly string[];
  /** The plugged NIC's CNI result. */
  readonly given: readonly string[];
  readonly nic: { readonly mac: string | undefined; readonly pciAddress: string | undefined };
}

export interface ClaimStory {
  /** Value of the EFI variable SecureBoot. */
  readonly secureBoot: string;
  /** Through `patchbay ssh` and `scp`. */
  readonly shell: ShellStory;
  /** Its data from before the restart. */
  readonly kept: string;
  /** Its condition LiveMigratable, and the error of a requested migration. */
  readonly staying: { readonly reason: string | undefined; readonly refused: string };
  /** With the plugged NIC, before and after the restart. */
  readonly resolving: readonly [Resolving, Resolving];
  /** The claim's phase after the VM's deletion. */
  readonly phase: string;
}

/** Configures DHCP on every NIC, now and after each start. Source: systemd.network(5). */
async function askEverywhere(): Promise<void> {
  const file = "/etc/systemd/network/20-all.network";
  await inDebian(NAME, `printf "[Match]\\nName=e*\\n[Network]\\nDHCP=ipv4\\n" >${file} && sync`);
  await inDebian(NAME, "systemctl restart systemd-networkd");
}

/** Leases by the NIC's address, once there are two. Source: systemd, /run/systemd/netif/leases. */
async function leases(): Promise<ReadonlyMap<string, string>> {
  return eventually(
    async () => {
      const text = await inDebian(NAME, "cat /run/systemd/netif/leases/*");
      const each = text.split("# This is private data.").slice(1);
      const entries = each.map(
        (lease) => [/^ADDRESS=(\S+)/m.exec(lease)?.[1] ?? "", lease] as const,
      );
      return entries.length === 2 ? new Map(entries) : undefined;
    },
    { withinMs: CHANGE_MS },
  );
}

async function look(): Promise<Resolving> {
  const { mac, pciAddress } = await expectReady(NAME, "out1");
  const attachments = machine.findVmi(NAME)?.status?.attachments ?? [];
  const found = await leases();
  const ways = [...found].filter(([, lease]) => /^(?:DNS|ROUTER)=\S/m.test(lease));
  return {
    addresses: [...found.keys()].toSorted(),
    ways: ways.map(([address]) => address),
    given: attachments.find(({ name }) => name === "out1")?.ips ?? [],
    nic: { mac, pciAddress },
  };
}

function apply(publicKey: string): void {
  const userData = obedientUserData({ ssh_authorized_keys: [publicKey] });
  machine.apply(
    diskVmManifest({
      name: NAME,
      disks: [
        { name: "root", volume: { dataVolume: { name: CLAIM } } },
        { name: "seed", volume: { cloudInitConfigDrive: { userData } } },
      ],
      firmware: { bootloader: { efi: { secureBoot: true } } },
      features: { smm: { enabled: true } },
    }),
  );
}

/** The results with the guest's key. */
async function visit(shell: SecureShell): Promise<ShellStory> {
  try {
    return await shell.visit(NAME);
  } finally {
    shell.close();
  }
}

/** Its claim is local to this node. */
function askToMove(): ClaimStory["staying"] {
  const conditions = machine.findVmi(NAME)?.status?.conditions ?? [];
  const condition = conditions.find(({ type }) => type === "LiveMigratable");
  const { code, stderr } = machine.try([
    "patchbay",
    "--data-dir",
    machine.dataDir,
    "migrate",
    NAME,
  ]);
  return { reason: condition?.reason, refused: code === 0 ? "" : stderr };
}

export async function bootFromClaim(): Promise<ClaimStory> {
  const person = new SecureShell();
  // The VM waits for its disk by itself.
  machine.apply(ROOT);
  apply(person.publicKey);
  await debianBooted(NAME);
  const staying = askToMove();
  // Four bytes of attributes precede the value. Source: UEFI specification, SecureBoot.
  const secureBoot = await inDebian(NAME, "od -An -tu1 -j4 /sys/firmware/efi/efivars/SecureBoot-*");
  await inDebian(NAME, "echo kept >/root/mark && sync");
  machine.apply(OUT);
  addInterface(NAME, { name: "out1", network: "out" });
  await expectReady(NAME, "out1");
  await askEverywhere();
  const before = await look();
  const shell = await visit(person);
  const uid = machine.findVmi(NAME)?.metadata.uid;
  machine.patchbay("restart", NAME);
  await debianRestarted(NAME, uid);
  const retained = await inDebian(NAME, "cat /root/mark");
  const resolving = [before, await look()] as const;
  machine.delete("vm", NAME);
  const phase = machine.kubectl("get", "pvc", CLAIM, "-o", "jsonpath={.status.phase}");
  return { secureBoot: secureBoot.trim(), shell, kept: retained, staying, resolving, phase };
}

export function deleteClaim(): void {
  machine.deleteIfPresent("vm", NAME);
  machine.deleteIfPresent("dv", CLAIM);
  machine.deleteIfPresent("net-attach-def", "out");
}
