// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  CAPTURE_LIMITS,
  capturePath,
  parseCapturePath,
  parseCaptureQuery,
  printCaptureQuery,
} from "./capture.ts";

const ORDER = { interface: "blue", filter: "tcp port 80 and not arp", seconds: 5, bytes: 4096 };

describe("a query", () => {
  test("is printed and read", () => {
    expect(parseCaptureQuery(printCaptureQuery(ORDER))).toEqual({ order: ORDER });
  });

  test("needs to name nothing but the interface", () => {
    const { seconds, bytes } = CAPTURE_LIMITS;
    const order = {
      interface: "blue",
      filter: "",
      seconds: seconds.fallback,
      bytes: bytes.fallback,
    };
    expect(parseCaptureQuery("interface=blue")).toEqual({ order });
  });

  test("has a filter as browsers write it too", () => {
    const order = { filter: "host 10.0.0.1" };
    expect(parseCaptureQuery("interface=b&filter=host+10.0.0.1")).toMatchObject({ order });
  });

  test.each([
    { query: "", problems: ["interface: must name an interface of the VM"] },
    { query: "interface=%", problems: ["query: is not encoded as a URL's query"] },
    {
      query: "interface=&seconds=0&bytes=1e9&color=red",
      problems: [
        "interface: must name an interface of the VM",
        "seconds: must be a whole number from 1 to 3600",
        "bytes: must be a whole number from 1024 to 1073741824",
        "color: is not known; known are interface, filter, seconds, bytes",
      ],
    },
    {
      query: "interface=b&filter=arp%0a-w",
      problems: ["filter: must be printable ASCII on one line"],
    },
    {
      query: `interface=b&filter=${"a".repeat(1001)}`,
      problems: ["filter: must have at most 1000 characters"],
    },
  ])("$query is told all that is wrong with it", ({ query, problems }) => {
    expect(parseCaptureQuery(query)).toEqual({ problems });
  });
});

describe("a path", () => {
  const KEY = { namespace: "blue", name: "vm1" };

  test("is printed and read, whatever the user is called", () => {
    const request = { stream: "capture", order: ORDER, by: "system:serviceaccount:a/b?c" } as const;
    expect(parseCapturePath(capturePath(KEY, request))).toEqual({ key: KEY, ...request });
  });

  test.each([
    "/v1/namespaces/a/virtualmachineinstances/b/console",
    "/v1/namespaces/a/virtualmachineinstances/b/capture?interface=c",
    "/v1/namespaces/a/virtualmachineinstances/b/capture/user",
    "/",
  ])("%s is none", (path) => {
    expect(parseCapturePath(path)).toBeUndefined();
  });
});
