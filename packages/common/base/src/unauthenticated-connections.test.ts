// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, test } from "vitest";
import { UnauthenticatedConnections, type Connection } from "./unauthenticated-connections.ts";

let unauthenticated: UnauthenticatedConnections;
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
  unauthenticated = new UnauthenticatedConnections(2);
  cut = [];
});

test("closes the oldest connection above the limit", () => {
  for (const port of [1, 2, 3, 4]) unauthenticated.add(from(port));
  expect(cut).toEqual([1, 2]);
});

test("does not count closed connections", () => {
  const first = from(1);
  unauthenticated.add(first);
  unauthenticated.add(from(2));
  first.close();
  unauthenticated.add(from(3));
  expect(cut).toEqual([]);
});

test("does not close an authenticated connection, whichever of its sockets authenticated", () => {
  for (const port of [1, 2]) unauthenticated.add(from(port));
  unauthenticated.markAuthenticated(from(1));
  unauthenticated.add(from(3));
  expect(cut).toEqual([]);
  unauthenticated.add(from(4));
  expect(cut).toEqual([2]);
});

test("the end of an earlier connection from the same port does not affect a later one", () => {
  const earlier = from(1);
  unauthenticated.add(earlier);
  unauthenticated.add(from(1));
  earlier.close();
  for (const port of [2, 3]) unauthenticated.add(from(port));
  expect(cut).toEqual([1]);
});
