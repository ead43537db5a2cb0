// SPDX-License-Identifier: Apache-2.0
// What is said of the way of a NIC's frames, hop by hop. The answer of the subresource `doctor` is of this shape. Pure.

/** Where frames pass, from the guest on; `addresses` and `translation` are the pod's own services on that way. */
export const HOPS = [
  ...(["guest", "device", "tap", "podBridge", "addresses", "translation", "podNic"] as const),
  ...(["nodePeer", "nodeBridge", "uplink", "gateway"] as const),
] as const;

/** One of them. */
export type HopName = (typeof HOPS)[number];

/**
 * `ok`: frames pass; `dead`: they do not, or not all that must; `unknown`: nothing was seen of it, or it does not tell;
 * `notApplicable`: this NIC has no such hop.
 */
export type HopState = "ok" | "dead" | "unknown" | "notApplicable";

/** One hop. */
export interface HopReport {
  readonly hop: HopName;
  /** Of the link, or the address; absent: none is known. */
  readonly name?: string;
  readonly state: HopState;
  /** Stable word for why it is dead; absent otherwise. See docs/doctor.md. */
  readonly reason?: string;
  /** What was seen, for a person. */
  readonly why: string;
  /** What to do; only where it is dead. */
  readonly fix?: string;
}

/** The whole way of one interface. */
export interface DoctorReport {
  /** NAMESPACE/NAME */
  readonly vmi: string;
  readonly interface: string;
  /** Each of {@link HOPS}, in that order. */
  readonly hops: readonly HopReport[];
  /** The first that is dead; absent: frames pass, as far as was seen. */
  readonly firstDead?: HopName;
  /** The fault is certain and lies in the guest or its pod, so `addinterface --check` unplugs the interface. */
  readonly isUnplugReason: boolean;
  /** How long it took. */
  readonly milliseconds: number;
}
