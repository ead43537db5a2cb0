// SPDX-License-Identifier: Apache-2.0
// Who is behind a token? Source: Kubernetes TokenReview.
import { type Authentication, TokenRefused } from "../../auth/authentication.ts";
import { userInfo } from "../../auth/user.ts";
import { badRequest } from "../../meta/status.ts";
import { type Fields, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";

/** The status of the review. Throws a StatusError 400. */
export async function answerToken(
  review: KubeObject,
  authentication: Authentication,
): Promise<Fields> {
  const token = textAt(review, "spec", "token");
  if (token === "") {
    throw badRequest("token is required for TokenReview in authentication");
  }
  const audiences = listOf(valueAt(review, "spec", "audiences")).map(String);
  try {
    const found = await authentication.findByToken(token, audiences);
    const user = userInfo(found.user);
    return { authenticated: true, user, audiences: found.audiences };
  } catch (error) {
    if (error instanceof TokenRefused) {
      return { user: {}, error: error.message };
    }
    throw error;
  }
}
