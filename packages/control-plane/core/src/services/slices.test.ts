// SPDX-License-Identifier: Apache-2.0
import { SLICE_ENDPOINTS_MAX, type EndpointSlice } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aNetworkService } from "../testing/network-services.ts";
import { planSlices, slicesOfParts, type ServicePart } from "./slices.ts";

const WRITER = "test.patchbay.io";
const service = aNetworkService();

function partOf(address: string, port = 8080): ServicePart {
  return {
    addressType: address.includes(":") ? "IPv6" : "IPv4",
    ports: [{ name: "", port, protocol: "TCP" }],
    endpoint: { addresses: [address] },
  };
}

function slicesFor(...parts: readonly ServicePart[]): readonly EndpointSlice[] {
  return slicesOfParts({ service, writer: WRITER, stem: "web" }, parts);
}

describe("slices", () => {
  test("have one address family, which never changes", () => {
    const names = slicesFor(partOf("fd77::5"), partOf("10.77.1.5")).map((slice) => [
      slice.metadata.name,
      slice.addressType,
    ]);
    expect(names).toEqual([
      ["web-0", "IPv4"],
      ["web-ipv6-0", "IPv6"],
    ]);
  });

  test("are filled to the limit, and contain only addresses with the same ports", () => {
    const parts = Array.from({ length: SLICE_ENDPOINTS_MAX + 1 }, (_none, index) =>
      partOf(`10.77.${String(index >> 8)}.${String(index & 255)}`),
    );
    const counts = slicesFor(...parts, partOf("10.78.0.1", 9090)).map((slice) => [
      slice.metadata.name,
      slice.ports?.[0]?.port,
      slice.endpoints?.length,
    ]);
    expect(counts).toEqual([
      ["web-0", 8080, SLICE_ENDPOINTS_MAX],
      ["web-1", 8080, 1],
      ["web-2", 9090, 1],
    ]);
  });
});

describe("a plan", () => {
  const one = slicesFor(partOf("10.77.1.5"));
  const other = slicesFor(partOf("10.77.1.6"));
  const stored = one.map((slice) => ({
    ...slice,
    metadata: { ...slice.metadata, uid: "u", resourceVersion: "7" },
  }));
  const foreign = slicesOfParts({ service, writer: "somebody.else", stem: "web" }, [
    partOf("10.77.1.9"),
  ]);

  test("is empty when everything is up to date", () => {
    expect(planSlices(one, stored, WRITER)).toEqual([]);
  });

  test("creates missing slices", () => {
    expect(planSlices(one, [], WRITER)).toEqual([{ kind: "create", slice: one[0] }]);
  });

  test("updates only changed slices, at the observed version", () => {
    expect(planSlices(other, stored, WRITER)).toMatchObject([
      { kind: "update", slice: { metadata: { resourceVersion: "7" } } },
    ]);
  });

  test("deletes unwanted slices except foreign ones", () => {
    expect(planSlices([], [...stored, ...foreign], WRITER)).toEqual([
      { kind: "delete", slice: stored[0] },
    ]);
  });

  test("does not adopt a foreign slice with that name", () => {
    expect(planSlices(one, foreign, WRITER)).toEqual([{ kind: "create", slice: one[0] }]);
  });
});
