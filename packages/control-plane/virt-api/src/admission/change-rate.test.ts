// SPDX-License-Identifier: Apache-2.0
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { admissionRequest, vmiWith, vmWith } from "../testing/admission.ts";
import { depsOn } from "../testing/deps.ts";
import { printReview, type AdmissionRequest } from "./review.ts";
import { validate } from "./validate.ts";

const PLUG = admissionRequest(vmWith({ bridge: {} }), vmWith(undefined));
const RENAMED = { ...vmWith(undefined), metadata: { ...vmWith(undefined).metadata, labels: {} } };

/** Returns the response for a user whose next change must wait for 2.5 s, and the keys under which changes counted. */
async function review(
  request: AdmissionRequest,
  { isRunning = true }: { readonly isRunning?: boolean } = {},
): Promise<{ readonly response: object; readonly keys: readonly string[] }> {
  const keys: string[] = [];
  const deps = depsOn(createFakeStore(), {
    hasGuest: () => isRunning,
    changeRate: {
      proceed: () => Promise.resolve(true),
      tryProceed: (key) => {
        keys.push(key);
        return 2500;
      },
    },
  });
  return { response: printReview(request, await validate(deps, request)), keys };
}

test.each([
  { what: "a VM", request: PLUG },
  { what: "a VMI", request: admissionRequest(vmiWith("a", undefined), vmiWith("a", {})) },
])("too many changes of $what's interfaces are refused until later", async ({ request }) => {
  expect(await review(request)).toMatchObject({
    keys: ["user alice"],
    response: {
      response: {
        allowed: false,
        status: {
          code: 429,
          reason: "TooManyRequests",
          message: "this user changes interfaces of running VMs too often; try again in 3 s",
          details: { retryAfterSeconds: 3 },
        },
      },
    },
  });
});

test.each([
  { what: "of a VM that does not run", request: PLUG, isRunning: false },
  { what: "in a dry run", request: { ...PLUG, dryRun: true } },
  { what: "of labels", request: admissionRequest(RENAMED, vmWith(undefined)) },
  { what: "that is a creation", request: admissionRequest(vmWith({ bridge: {} })) },
  {
    what: "that is invalid",
    request: admissionRequest(vmWith({ bridge: {}, masquerade: {} }), vmWith(undefined)),
  },
])("a change $what does not count", async ({ request, isRunning = true }) => {
  expect((await review(request, { isRunning })).keys).toEqual([]);
});
