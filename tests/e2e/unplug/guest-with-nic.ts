// SPDX-License-Identifier: Apache-2.0
// A guest with a NIC that comes and goes, and what is seen of the NIC from outside.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { IfaceStatus } from "@patchbay/api";
import { eventually, FEW_PORTS, type GuestConsole, vmManifest } from "@patchbay/support";
import { leaseFiles, linksOf } from "../inventory.ts";
import { addInterface, expectReady, ifaceStatus, machine, removeInterface } from "../machine.ts";
import { hasDevice } from "../virsh.ts";

/** Name of the iface. */
export const NIC = "nic";
/** NIC of the pod, bridge, tap. */
const LINKS = 3;
/** The guest is asked again no sooner. */
export const AGAIN_MS = 10_000;

/** What is reported of a plug or an unplug. */
export type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

/** The network of the NIC, and the bridge that CNI makes for it. */
interface Network {
  readonly network: string;
  readonly bridge: string;
}

/** The guest of one VM. */
export class GuestWithNic {
  readonly guest: GuestConsole;
  /** Names of the pod's links without the NIC's. */
  readonly linksAtRest: readonly string[];
  readonly #vm: string;
  readonly #network: Network;
  readonly #podUid: string;
  /** By this process' clock: the guest is asked after it for the first time. */
  #unpluggedAtMs = 0;

  private constructor(vm: string, network: Network) {
    this.#vm = vm;
    this.#network = network;
    this.guest = machine.console(vm);
    this.#podUid = machine.findPod(vm)?.metadata.uid ?? "";
    this.linksAtRest = this.links();
  }

  /** Makes the VM and waits for its guest. */
  static async boot(vm: string, network: Network): Promise<GuestWithNic> {
    machine.apply(vmManifest({ name: vm, pcieRootPorts: FEW_PORTS }));
    await machine.booted(vm);
    return new GuestWithNic(vm, network);
  }

  async plug(): Promise<void> {
    addInterface(this.#vm, { name: NIC, network: this.#network.network });
    await expectReady(this.#vm, NIC);
  }

  /** Asks for the unplug; what comes of it is waited for by others. */
  unplug(): void {
    this.#unpluggedAtMs = performance.now();
    removeInterface(this.#vm, NIC);
  }

  links(): readonly string[] {
    return linksOf(this.#podUid);
  }

  hotplug(): Hotplug | undefined {
    return ifaceStatus(this.#vm, NIC)?.hotplug;
  }

  /** How often virt-handler has asked the guest for a NIC since it booted, by its log. */
  requestsLogged(): number {
    const log = readFileSync(join(machine.dataDir, "logs", "virt-handler.log"), "utf8");
    const lines = log.split("\n").filter((line) => line.includes('"action":"detachDevice"'));
    return lines.filter((line) => line.includes(`/${this.#vm}"`)).length;
  }

  /** Everything that the NIC has outside the guest. */
  belongings(): unknown {
    const { annotations } = machine.findPod(this.#vm)?.metadata ?? {};
    return {
      device: hasDevice(this.#vm, NIC),
      links: this.links(),
      leases: leaseFiles(this.#network.bridge),
      annotation: annotations?.["k8s.v1.cni.cncf.io/networks"],
    };
  }

  /** Waits for a report on the unplug. */
  async expectWait(is: (found: Hotplug) => boolean, withinMs: number): Promise<Hotplug> {
    return eventually(
      () => {
        const found = this.hotplug();
        return found?.phase === "Detaching" && is(found) ? found : undefined;
      },
      { withinMs },
    );
  }

  /** What is out of order: a tap that went before its device, requests less than 10 s apart. */
  faults(): readonly string[] {
    // Looked at in this order: a device that is there after a link has gone was there before.
    const isBare =
      this.links().length < this.linksAtRest.length + LINKS && hasDevice(this.#vm, NIC);
    const { phase, attempts = 0 } = this.hotplug() ?? {};
    // The status has times of its writes, which come later than the request on a busy machine.
    const elapsedMs = performance.now() - this.#unpluggedAtMs;
    const isRushed = phase === "Detaching" && attempts > 1 + Math.floor(elapsedMs / AGAIN_MS);
    return [
      ...(isBare ? ["a link went before the device"] : []),
      ...(isRushed ? [`asked ${String(attempts)} times in ${String(elapsedMs)} ms`] : []),
    ];
  }
}
