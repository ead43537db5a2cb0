// SPDX-License-Identifier: Apache-2.0
// What a kind of wiring must be able to do in a pod's namespace.
import type { LeftWiring, PodWiring, SeenWiring } from "@patchbay/core";
import type { LinkChange } from "../link-change.ts";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import type { SeenTables } from "../nft/table.ts";
import type { SeenSettings, Setting } from "../settings.ts";

/** Everything in a namespace that wiring is about. */
export interface NetnsState {
  readonly links: ReadonlyMap<string, WiredLink>;
  readonly forwarding: readonly ForwardingEntry[];
  readonly tables: SeenTables;
  readonly settings: SeenSettings;
}

/** A pod's namespace, to be looked at and changed. */
export interface Pod {
  see(): Promise<NetnsState>;
  listLinks(): Promise<readonly WiredLink[]>;
  /** Changes in order; none is no call. */
  change(changes: readonly LinkChange[]): Promise<void>;
  /** Commands of `nft -f`, all or none of which take hold; an empty text is no call. */
  nft(commands: string): Promise<void>;
  /** Settings of the namespace, in order; none is no call. */
  set(settings: readonly Setting[]): Promise<void>;
}

type Of<Union, Kind> = Extract<Union, { readonly kind: Kind }>;

/** One kind of wiring. Everything may be repeated; what is there is seen in full. */
export interface Wirer<Kind extends PodWiring["kind"]> {
  readonly isWired: (state: NetnsState, wiring: Of<SeenWiring, Kind>) => boolean;
  /** `before`: what was seen just now. */
  readonly wire: (pod: Pod, wiring: Of<PodWiring, Kind>, before: NetnsState) => Promise<void>;
  readonly unwire: (pod: Pod, wiring: Of<LeftWiring, Kind>, before: NetnsState) => Promise<void>;
}
