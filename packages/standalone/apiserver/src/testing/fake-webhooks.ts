// SPDX-License-Identifier: Apache-2.0
// Fake admission webhooks. They record requests and change or reject objects as a test wants.
import type { Admission, AdmissionRequest, Mutation } from "../admission/admission.ts";
import { copyJson } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** A recorded request, with copies of its objects. */
export interface RecordedRequest {
  readonly phase: "mutate" | "validate" | "delete";
  readonly request: AdmissionRequest;
}

/** Webhooks that accept everything unless a test sets a member. */
export class FakeWebhooks implements Admission {
  readonly recorded: RecordedRequest[] = [];
  /** Changes the object of each write. */
  change: ((object: KubeObject, request: AdmissionRequest) => void) | undefined;
  /** Runs in each phase before the request is accepted. May throw to reject the request. */
  onRequest: ((recorded: RecordedRequest) => Promise<void> | void) | undefined;

  async mutate(
    request: Mutation,
    complete: (object: KubeObject) => KubeObject,
  ): Promise<KubeObject> {
    await this.#record("mutate", request);
    if (this.change === undefined) return request.object;
    const changed = copyJson(request.object);
    this.change(changed, request);
    return complete(changed);
  }

  validate(request: AdmissionRequest): Promise<void> {
    return this.#record("validate", request);
  }

  admitDeletion(request: AdmissionRequest): Promise<void> {
    return this.#record("delete", request);
  }

  async #record(phase: RecordedRequest["phase"], request: AdmissionRequest): Promise<void> {
    const { object, oldObject } = request;
    const recorded = {
      phase,
      request: {
        ...request,
        object: object && copyJson(object),
        oldObject: oldObject && copyJson(oldObject),
      },
    };
    this.recorded.push(recorded);
    await this.onRequest?.(recorded);
  }
}
