"""Properties of the small exercise."""

from grader.properties import Float, Size, equal, gradients, inputs_unchanged, prop, raises, shape


@prop(points=20)
def scores_have_the_shape(scores, q: Float["B T D"], k: Float["B S D"], B: Size["B"], T: Size["T"], S: Size["S"]):
    """There is one score for every query and key."""
    shape(scores(q, k), B, T, S)


@prop(points=20, needs=["scores_have_the_shape"])
def scores_have_the_value(scores, reference, q: Float["B T D"], k: Float["B S D"], c: Float["B T S"]):
    """A score is the dot product over the root of the width."""
    equal(scores(q, k), reference.scores(q, k))
    gradients(scores.gradients(q, k, cotangent=c), reference.scores.gradients(q, k, cotangent=c))


@prop(points=20)
def halves_refuse_an_odd_width(halves, x: Float["T 2*D+1"], width: Size["2*D+1"]):
    """An odd width raises ValueError that names it."""
    raises(halves, x, error=ValueError, mentions=[width])


@prop(points=20)
def scale_multiplies(Scale, reference, x: Float["B C"], w: Float["C"], C: Size["C"]):
    """Each channel is multiplied by its weight."""
    mine, theirs = Scale(C), reference.Scale(C)
    mine.write({"weight": w})
    theirs.write({"weight": w})
    equal(mine(x), theirs(x))


@prop(points=20)
def scale_leaves_its_input(Scale, x: Float["B C"], w: Float["C"], C: Size["C"]):
    """The input is as it was."""
    layer = Scale(C)
    layer.write({"weight": w})
    inputs_unchanged(layer, x)
