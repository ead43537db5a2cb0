// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test } from "vitest";
import { UnauthenticatedConnections, type Connection } from "./unauthenticated-connections.ts";

let strangers: UnauthenticatedConnections;
let cut: number[];

/** A connection from that port; it is closed when it is cut, or by the function. */
function from(remotePort: number): Connection & { readonly close: () => void } {
  const listeners: (() => void)[] = [];
  const close = (): void => {
    for (const listener of listeners) listener();
  };
  const destroy = (): void => {
    cut.push(remotePort);
    close();
  };
  const once = (_event: "close", listener: () => void): unknown => listeners.push(listener);
  return { remoteAddress: "192.0.2.1", remotePort, once, destroy, close };
}

beforeEach(() => {
  strangers = new UnauthenticatedConnections(2);
  cut = [];
});

test("the oldest gives way to one too many", () => {
  for (const port of [1, 2, 3, 4]) strangers.add(from(port));
  expect(cut).toEqual([1, 2]);
});

test("one that is closed takes no room", () => {
  const first = from(1);
  strangers.add(first);
  strangers.add(from(2));
  first.close();
  strangers.add(from(3));
  expect(cut).toEqual([]);
});

test("one that is known is not cut off, whichever of its sockets showed it", () => {
  for (const port of [1, 2]) strangers.add(from(port));
  strangers.know(from(1));
  strangers.add(from(3));
  expect(cut).toEqual([]);
  strangers.add(from(4));
  expect(cut).toEqual([2]);
});

test("the end of an earlier connection from the same port is not the later one's", () => {
  const earlier = from(1);
  strangers.add(earlier);
  strangers.add(from(1));
  earlier.close();
  for (const port of [2, 3]) strangers.add(from(port));
  expect(cut).toEqual([1]);
});
