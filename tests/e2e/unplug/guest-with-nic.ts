// SPDX-License-Identifier: Apache-2.0
// A guest with a NIC that is plugged and unplugged, observed from outside.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { IfaceStatus } from "@patchbay/api";
import { eventually, FEW_PORTS, type GuestConsole, vmManifest } from "@patchbay/support";
import { leaseFiles, linksOf } from "../inventory.ts";
import { addInterface, expectReady, ifaceStatus, machine, removeInterface } from "../machine.ts";
import { hasDevice } from "../virsh.ts";

export const NIC = "nic";
const LINKS = 3;
/** Least time between unplug requests to the guest. */
export const AGAIN_MS = 10_000;

export type Hotplug = NonNullable<IfaceStatus["hotplug"]>;

/** The NIC's network, and its CNI bridge. */
interface Network {
  readonly network: string;
  readonly bridge: string;
}

export class GuestWithNic {
  readonly guest: GuestConsole;
  /** The pod's links without the NIC's. */
  readonly linksAtRest: readonly string[];
  readonly #vm: string;
  readonly #network: Network;
  readonly #podUid: string;
  /** By this process's clock: time of the first unplug request to the guest. */
  #unpluggedAtMs = 0;

  private constructor(vm: string, network: Network) {
    this.#vm = vm;
    this.#network = network;
    this.guest = machine.console(vm);
    this.#podUid = machine.findPod(vm)?.metadata.uid ?? "";
    this.linksAtRest = this.links();
  }

  /** Creates the VM and waits for its guest. */
  static async boot(vm: string, network: Network): Promise<GuestWithNic> {
    machine.apply(vmManifest({ name: vm, pcieRootPorts: FEW_PORTS }));
    await machine.booted(vm);
    return new GuestWithNic(vm, network);
  }

  async plug(): Promise<void> {
    addInterface(this.#vm, { name: NIC, network: this.#network.network });
    await expectReady(this.#vm, NIC);
  }

  /** Requests the unplug; the caller waits for the result. */
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

  /** Number of unplug requests to the guest since boot, by virt-handler's log. */
  requestsLogged(): number {
    const log = readFileSync(join(machine.dataDir, "logs", "virt-handler.log"), "utf8");
    const lines = log.split("\n").filter((line) => line.includes('"action":"detachDevice"'));
    return lines.filter((line) => line.includes(`/${this.#vm}"`)).length;
  }

  /** All parts of the NIC outside the guest. */
  belongings(): unknown {
    const { annotations } = machine.findPod(this.#vm)?.metadata ?? {};
    return {
      device: hasDevice(this.#vm, NIC),
      links: this.links(),
      leases: leaseFiles(this.#network.bridge),
      annotation: annotations?.["k8s.v1.cni.cncf.io/networks"],
    };
  }

  async expectWait(is: (found: Hotplug) => boolean, withinMs: number): Promise<Hotplug> {
    return eventually(
      () => {
        const found = this.hotplug();
        return found?.phase === "Detaching" && is(found) ? found : undefined;
      },
      { withinMs },
    );
  }

  /** Faults: a tap removed before its device, requests less than 10 s apart. */
  faults(): readonly string[] {
    // Read in this order: a device present after a link's removal was present before it.
    const isBare =
      this.links().length < this.linksAtRest.length + LINKS && hasDevice(this.#vm, NIC);
    const { phase, attempts = 0 } = this.hotplug() ?? {};
    // The status has write times, which are later than the request on a busy machine.
    const elapsedMs = performance.now() - this.#unpluggedAtMs;
    const isRushed = phase === "Detaching" && attempts > 1 + Math.floor(elapsedMs / AGAIN_MS);
    return [
      ...(isBare ? ["a link went before the device"] : []),
      ...(isRushed ? [`asked ${String(attempts)} times in ${String(elapsedMs)} ms`] : []),
    ];
  }
}
