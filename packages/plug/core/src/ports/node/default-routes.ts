// SPDX-License-Identifier: Apache-2.0
// What net-agent needs from the kernel to let the default routes of a pod go by another NIC.
import type { NetnsHandle } from "../namespaces.ts";

/** A default route of the main table. Source: `ip route show default`. */
export interface DefaultRoute {
  /** Of its family. */
  readonly version: 4 | 6;
  /** NIC that it goes by; empty: by several. */
  readonly link: string;
  /** Absent: whoever is on the NIC. */
  readonly gateway?: string;
  /** All of it, in the kernel's own words, base64: what makes the same again. Source: struct rtmsg and its attributes. */
  readonly words: string;
}

/** A default route that is to be. */
export interface NewDefaultRoute {
  readonly link: string;
  readonly gateway: string;
}

/** Default routes of a namespace. Everything may be repeated. */
export interface DefaultRoutes {
  /** Those that somebody set or a router told of, in the order of the kernel. @throws AppError with PODNET_FAILED */
  list(netns: NetnsHandle): Promise<readonly DefaultRoute[]>;
  /** Equivalent to: `ip route add default via GATEWAY dev LINK`. @throws AppError with PODNET_LINK_MISSING, PODNET_FAILED */
  add(netns: NetnsHandle, route: NewDefaultRoute): Promise<void>;
  /** Not there is success. @throws AppError with PODNET_FAILED */
  remove(netns: NetnsHandle, route: DefaultRoute): Promise<void>;
  /** Makes a route of before again. @throws AppError with PODNET_FAILED, also when its NIC is gone */
  restore(netns: NetnsHandle, route: DefaultRoute): Promise<void>;
}
