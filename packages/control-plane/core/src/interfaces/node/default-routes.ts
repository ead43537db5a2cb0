// SPDX-License-Identifier: Apache-2.0
import type { NetnsHandle } from "../namespaces.ts";

/** A default route of the main table. Source: `ip route show default`. */
export interface DefaultRoute {
  readonly version: 4 | 6;
  /** Name of the NIC. Empty for a multipath route. */
  readonly link: string;
  readonly gateway?: string;
  /** Kernel attributes of the complete route in base64, for `restore`. Source: struct rtmsg and its attributes. */
  readonly words: string;
}

export interface NewDefaultRoute {
  readonly link: string;
  readonly gateway: string;
}

/** Default routes of a namespace. All calls are idempotent. */
export interface DefaultRoutes {
  /** Lists default routes, including routes from router advertisements, in the kernel's order. @throws AppError with PODNET_FAILED */
  list(netns: NetnsHandle): Promise<readonly DefaultRoute[]>;
  /** Equivalent to: `ip route add default via GATEWAY dev LINK`. @throws AppError with PODNET_LINK_MISSING, PODNET_FAILED */
  add(netns: NetnsHandle, route: NewDefaultRoute): Promise<void>;
  /** Removes the route. Succeeds if the route does not exist. @throws AppError with PODNET_FAILED */
  remove(netns: NetnsHandle, route: DefaultRoute): Promise<void>;
  /** Restores a removed route. @throws AppError with PODNET_FAILED, for example if its NIC no longer exists */
  restore(netns: NetnsHandle, route: DefaultRoute): Promise<void>;
}
