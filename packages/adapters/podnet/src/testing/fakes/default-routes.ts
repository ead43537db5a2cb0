// SPDX-License-Identifier: Apache-2.0
import { parseIp } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import type { DefaultRoute, DefaultRoutes, NetnsHandle } from "@patchbay/core/interfaces";

/** {@link DefaultRoutes} in memory. */
export interface FakeDefaultRoutes extends DefaultRoutes {
  /** Adds a route, as CNI does. */
  put(netnsInode: string, route: Omit<DefaultRoute, "words">): void;
  /** Deletes the routes of a NIC, as the deletion of the NIC does. */
  takeLink(netnsInode: string, link: string): void;
  /** Lists the gateways of a namespace's routes in order, or the name of the NIC for routes without a gateway. */
  listGateways(netnsInode: string): readonly string[];
  /** Makes the next call of this method fail with the error. */
  failNext(call: keyof DefaultRoutes, error: Error): void;
}

export function createFakeDefaultRoutes(
  hasLink: (netnsInode: string, link: string) => boolean = () => true,
): FakeDefaultRoutes {
  return new MemoryDefaultRoutes(hasLink);
}

function printRoute({ version, link, gateway = "" }: Omit<DefaultRoute, "words">): string {
  return Buffer.from(`${String(version)} ${link} ${gateway}`).toString("base64");
}

class MemoryDefaultRoutes implements FakeDefaultRoutes {
  readonly #hasLink: (netnsInode: string, link: string) => boolean;
  readonly #routes = new Map<string, readonly DefaultRoute[]>();
  readonly #failures = new Map<string, Error>();

  constructor(hasLink: (netnsInode: string, link: string) => boolean) {
    this.#hasLink = hasLink;
  }

  put(inode: string, route: Omit<DefaultRoute, "words">): void {
    const printed = printRoute(route);
    const otherRoutes = this.#of(inode).filter((known) => known.words !== printed);
    this.#routes.set(inode, [...otherRoutes, { ...route, words: printed }]);
  }

  takeLink(inode: string, link: string): void {
    this.#routes.set(
      inode,
      this.#of(inode).filter((route) => route.link !== link),
    );
  }

  listGateways(inode: string): readonly string[] {
    return this.#of(inode).map(({ gateway, link }) => gateway ?? link);
  }

  failNext(call: keyof DefaultRoutes, error: Error): void {
    this.#failures.set(call, error);
  }

  async list({ inode }: NetnsHandle): Promise<readonly DefaultRoute[]> {
    await this.#begin("list");
    return this.#of(inode);
  }

  async add({ inode }: NetnsHandle, route: Parameters<DefaultRoutes["add"]>[1]): Promise<void> {
    await this.#begin("add");
    const { link, gateway } = route;
    if (!this.#hasLink(inode, link)) throw new AppError("PODNET_LINK_MISSING", { link });
    this.put(inode, { version: parseIp(gateway)?.version ?? 4, link, gateway });
  }

  async remove({ inode }: NetnsHandle, { words }: DefaultRoute): Promise<void> {
    await this.#begin("remove");
    this.#routes.set(
      inode,
      this.#of(inode).filter((route) => route.words !== words),
    );
  }

  async restore({ inode }: NetnsHandle, route: DefaultRoute): Promise<void> {
    await this.#begin("restore");
    if (!this.#hasLink(inode, route.link)) {
      throw new AppError("PODNET_FAILED", { message: `there is no link ${route.link}` });
    }
    this.put(inode, route);
  }

  #of(inode: string): readonly DefaultRoute[] {
    return this.#routes.get(inode) ?? [];
  }

  async #begin(call: keyof DefaultRoutes): Promise<void> {
    await Promise.resolve();
    const error = this.#failures.get(call);
    this.#failures.delete(call);
    if (error !== undefined) throw error;
  }
}
