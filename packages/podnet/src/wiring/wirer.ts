// SPDX-License-Identifier: Apache-2.0
// What a kind of wiring must be able to do in a pod's namespace.
import type { LeftWiring, PodWiring, SeenWiring } from "@patchbay/core";
import type { ForwardingEntry, WiredLink } from "../links.ts";

/** Everything in a namespace that wiring is about. */
export interface Sight {
  readonly links: ReadonlyMap<string, WiredLink>;
  readonly forwarding: readonly ForwardingEntry[];
}

/** A pod's namespace, to be looked at and changed. */
export interface Pod {
  see(): Promise<Sight>;
  listLinks(): Promise<readonly WiredLink[]>;
  /** Commands of `ip -batch`, in order; none is no call. */
  ip(commands: readonly string[]): Promise<void>;
  /** Commands of `bridge -batch`, in order; none is no call. */
  bridge(commands: readonly string[]): Promise<void>;
}

type Of<Union, Kind> = Extract<Union, { readonly kind: Kind }>;

/** One kind of wiring. Everything may be repeated; what is there is seen in full. */
export interface Wirer<Kind extends PodWiring["kind"]> {
  readonly isWired: (sight: Sight, wiring: Of<SeenWiring, Kind>) => boolean;
  readonly wire: (pod: Pod, wiring: Of<PodWiring, Kind>) => Promise<void>;
  readonly unwire: (pod: Pod, wiring: Of<LeftWiring, Kind>) => Promise<void>;
}
