// SPDX-License-Identifier: Apache-2.0
// What there is to say of one reason.

/** One reason for which an iface, or a guest, does not go on. */
export interface ReasonEntry {
  /** Phases in which it is told, for the reference. */
  readonly phases: string;
  readonly meaning: string;
  /** Who can help, or acts next. */
  readonly who: string;
  readonly from: "net-agent" | "virt-controller" | "virt-handler" | "net-agent, virt-handler";
  /** The event on the VM, else the VMI, that tells of it once: a warning, a normal one for what ends by itself, or none. */
  readonly event: "Warning" | "Normal" | "none";
  /** What has to happen before the phase's own step can be taken, where that is another's turn. */
  readonly next?: string;
  /** What a person can do, said after the words of an error; `{network}` is filled in. */
  readonly advice?: string;
}
